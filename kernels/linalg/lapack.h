/*
 * LAPACK's decompositions, from OpenBLAS's static library, under a run's deadline.
 *
 * LAPACK cannot stop a decomposition, which takes seconds for matrices of thousands of rows.
 * However, all of its algorithms call a few functions again and again. The linker (--wrap in
 * CMakeLists.txt) replaces these functions by functions of lapack.c, which check the deadline of
 * the run first. If the run has ended, the functions of lapack.c leave the decomposition by
 * longjmp. A longjmp is safe here because LAPACK holds no locks and no memory of its own: the
 * caller provides the workspace.
 *
 * LAPACK's matrices are column-major. A row-major matrix is a transposed one for LAPACK.
 *
 * Threads: several threads may call LAPACK at the same time. OpenBLAS's serial build starts no
 * threads.
 */
#ifndef KN_LINALG_LAPACK_H
#define KN_LINALG_LAPACK_H

#include <stddef.h>

#include "kernels/linalg/linalg.h"

/* LAPACK's integers have 32 bits, and one of them is the size of the workspace. The workspace may
 * have four times as many elements as the matrix, so matrices of more than KN_LAPACK_MOST rows are
 * refused. */
enum {
    KN_LAPACK_MOST = 16384,
    /* number of columns of workspace for which LAPACK's blocked algorithms use GEMM */
    KN_LAPACK_BLOCK = 64,
};

/* Calls body(arg), which may call LAPACK. If the run ends meanwhile, sets q->ended and leaves
 * `body` by longjmp. Therefore `body` must not own memory or hold locks when it calls LAPACK. Does
 * nothing if q->ended is already set. */
void kn_lapack_call(struct kn_ask *q, void (*body)(void *), void *arg);
/* Refuses matrices with more than KN_LAPACK_MOST rows or columns. */
enum rt_status kn_lapack_size(int64_t m, int64_t n, struct rt_error *err);

/* Fortran's calling convention: all arguments are pointers, and the lengths of strings follow. The
 * arguments of the macros are DECLARE(type, type of its real parts, prefix). */
#define KN_LAPACK_REAL(R, p)                                                                       \
    void p##gesdd_(const char *job, const int *m, const int *n, R *a, const int *lda, R *s, R *u,  \
                   const int *ldu, R *vt, const int *ldvt, R *work, const int *lwork, int *iwork,  \
                   int *info, size_t);                                                             \
    void p##syevd_(const char *job, const char *uplo, const int *n, R *a, const int *lda, R *w,    \
                   R *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t,    \
                   size_t);                                                                        \
    void p##geev_(const char *jobvl, const char *jobvr, const int *n, R *a, const int *lda, R *wr, \
                  R *wi, R *vl, const int *ldvl, R *vr, const int *ldvr, R *work,                  \
                  const int *lwork, int *info, size_t, size_t);                                    \
    void p##gelsy_(const int *m, const int *n, const int *nrhs, R *a, const int *lda, R *b,        \
                   const int *ldb, int *jpvt, const R *rcond, int *rank, R *work,                  \
                   const int *lwork, int *info);                                                   \
    void p##orgqr_(const int *m, const int *n, const int *k, R *a, const int *lda, const R *tau,   \
                   R *work, const int *lwork, int *info);
#define KN_LAPACK_COMPLEX(T, R, p)                                                                 \
    void p##gesdd_(const char *job, const int *m, const int *n, T *a, const int *lda, R *s, T *u,  \
                   const int *ldu, T *vt, const int *ldvt, T *work, const int *lwork, R *rwork,    \
                   int *iwork, int *info, size_t);                                                 \
    void p##heevd_(const char *job, const char *uplo, const int *n, T *a, const int *lda, R *w,    \
                   T *work, const int *lwork, R *rwork, const int *lrwork, int *iwork,             \
                   const int *liwork, int *info, size_t, size_t);                                  \
    void p##geev_(const char *jobvl, const char *jobvr, const int *n, T *a, const int *lda, T *w,  \
                  T *vl, const int *ldvl, T *vr, const int *ldvr, T *work, const int *lwork,       \
                  R *rwork, int *info, size_t, size_t);                                            \
    void p##gelsy_(const int *m, const int *n, const int *nrhs, T *a, const int *lda, T *b,        \
                   const int *ldb, int *jpvt, const R *rcond, int *rank, T *work,                  \
                   const int *lwork, R *rwork, int *info);                                         \
    void p##ungqr_(const int *m, const int *n, const int *k, T *a, const int *lda, const T *tau,   \
                   T *work, const int *lwork, int *info);
#define KN_LAPACK_ANY(T, p)                                                                        \
    void p##geqrf_(const int *m, const int *n, T *a, const int *lda, T *tau, T *work,              \
                   const int *lwork, int *info);
KN_LAPACK_REAL(float, s)
KN_LAPACK_REAL(double, d)
KN_LAPACK_COMPLEX(float _Complex, float, c)
KN_LAPACK_COMPLEX(double _Complex, double, z)
KN_LAPACK_ANY(float, s)
KN_LAPACK_ANY(double, d)
KN_LAPACK_ANY(float _Complex, c)
KN_LAPACK_ANY(double _Complex, z)
void zgees_(const char *jobvs, const char *sort, int (*select)(const double _Complex *),
            const int *n, double _Complex *a, const int *lda, int *sdim, double _Complex *w,
            double _Complex *vs, const int *ldvs, double _Complex *work, const int *lwork,
            double *rwork, int *bwork, int *info, size_t, size_t);

#endif

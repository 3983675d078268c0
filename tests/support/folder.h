/* A temporary directory for one test, with files in it. The test fails if any function of this
 * header fails. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

/* Makes the temporary directory and returns its path. Only one temporary directory may exist at a
 * time. */
const char *folder_new(void);
void folder_remove(void);                  /* removes the directory and its contents */
const char *folder_path(const char *name); /* returns a path that is valid for the next few calls */
/* Writes a file. Creates its parent directories and replaces an existing file. */
void folder_write(const char *name, const char *text);
void folder_make(const char *name);   /* creates a directory and its parents */
void folder_delete(const char *name); /* deletes a file or a directory tree */
void folder_rename(const char *from, const char *to);
/*
 * Makes the entries of the directory `name` inaccessible (EACCES), even if root runs the test. The
 * directory can still be listed. folder_open_again makes the entries accessible again and must be
 * called before folder_remove.
 */
void folder_close(const char *name);
void folder_open_again(const char *name);
/* moves the modification times of a directory tree into the past */
void folder_age(const char *name, int seconds);

#endif

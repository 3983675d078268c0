/* A temporary directory for one test, with files in it. A call that fails fails the test. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

/* Makes the temporary directory and returns its path. Only one may exist at a time. */
const char *folder_new(void);
void folder_remove(void);                  /* removes the directory and its contents */
const char *folder_path(const char *name); /* the path is valid for the next few calls */
void folder_write(const char *name, const char *text); /* creates parents and replaces the file */
void folder_make(const char *name);                    /* creates a directory and its parents */
void folder_delete(const char *name);                  /* deletes a file or a directory tree */
void folder_rename(const char *from, const char *to);
/*
 * Makes the directory `name` listable but its entries inaccessible (EACCES), whichever user runs
 * the test, until folder_open_again, which must precede folder_remove.
 */
void folder_close(const char *name);
void folder_open_again(const char *name);
/* moves the modification times of a directory tree into the past */
void folder_age(const char *name, int seconds);

#endif

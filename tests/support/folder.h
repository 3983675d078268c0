/* A directory for one test, with files in it. Every call fails the test when it fails. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

const char *folder_new(void);                          /* its path; one at a time */
void folder_remove(void);                              /* and all that is in it */
const char *folder_path(const char *name);             /* valid until the next few calls */
void folder_write(const char *name, const char *text); /* makes parents; replaces */
void folder_make(const char *name);                    /* a directory, with parents */
void folder_delete(const char *name);                  /* a file or a whole tree */
void folder_rename(const char *from, const char *to);
/* The directory `name` may be listed, and nothing in it looked at (EACCES), whoever runs the test,
 * until folder_open_again; folder_remove needs that. */
void folder_close(const char *name);
void folder_open_again(const char *name);
void folder_age(const char *name, int seconds); /* modification times of a tree into the past */

#endif

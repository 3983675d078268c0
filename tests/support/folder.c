#include "tests/support/folder.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

static char root[256];
static bool was_root; /* whether folder_close has given up root's privileges */

const char *folder_new(void)
{
    snprintf(root, sizeof root, "%s", "/tmp/slipway-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    return root;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s, (void)kind, (void)f;
    return remove(path);
}

void folder_remove(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *folder_path(const char *name)
{
    static char buffer[4][512];
    static int next;
    char *path = buffer[next++ & 3];
    snprintf(path, sizeof buffer[0], "%s/%s", root, name);
    return path;
}

void folder_close(const char *name)
{
    enum { NOBODY = 65534 };

    assert_int_equal(chmod(root, 0755), 0);
    /* With mode 0444 the directory can be listed, but not searched. */
    assert_int_equal(chmod(folder_path(name), 0444), 0);
    was_root = getuid() == 0;
    if (was_root) /* root is not restricted by file modes */
        assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
}

void folder_open_again(const char *name)
{
    if (was_root)
        assert_int_equal(setresuid(0, 0, 0), 0);
    assert_int_equal(chmod(folder_path(name), 0755), 0);
}

static void make_parents(char *path)
{
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0777);
        *p = '/';
    }
}

void folder_make(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/", root, name);
    make_parents(path);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
}

void folder_write(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    make_parents(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

void folder_delete(const char *name)
{
    assert_int_equal(nftw(folder_path(name), remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void folder_rename(const char *from, const char *to)
{
    assert_int_equal(rename(folder_path(from), folder_path(to)), 0);
}

static int age_s;

static int age_one(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s, (void)kind, (void)f;
    struct timespec t[2];
    clock_gettime(CLOCK_REALTIME, &t[0]);
    t[0].tv_sec -= age_s;
    t[1] = t[0];
    return utimensat(AT_FDCWD, path, t, 0);
}

void folder_age(const char *name, int seconds)
{
    age_s = seconds;
    assert_int_equal(nftw(folder_path(name), age_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

#include "runtime/base/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_file(const char *path, char *buf, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, capacity - 1);
    close(fd);
    if (n <= 0)
        return false;
    buf[n] = '\0';
    return true;
}

static bool read_number(const char *path, int64_t *out)
{
    char buf[64];
    if (!read_file(path, buf, sizeof buf) || strncmp(buf, "max", 3) == 0)
        return false;
    char *end;
    long long v = strtoll(buf, &end, 10);
    if (end == buf || v < 0)
        return false;
    *out = v;
    return true;
}

/* Reads N from the line "key N" of a file. A unit may follow N ("MemAvailable: N kB"). */
static bool read_key(const char *path, const char *key, int64_t *out)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char line[256];
    bool found = false;
    size_t k = strlen(key);
    while (!found && fgets(line, sizeof line, f))
        if (strncmp(line, key, k) == 0 && (line[k] == ' ' || line[k] == ':')) {
            *out = strtoll(line + k + 1, NULL, 10);
            found = true;
        }
    fclose(f);
    return found;
}

/* Finds the directory of this process's cgroup in the unified hierarchy ("0::/path"). Sets `out` to
 * an empty string for the root cgroup. */
static void own_cgroup(char *out, size_t capacity)
{
    char buf[4096];
    out[0] = '\0';
    if (!read_file("/proc/self/cgroup", buf, sizeof buf))
        return;
    char *at = strstr(buf, "0::/");
    if (!at || (at != buf && at[-1] != '\n'))
        return;
    at += 3;
    char *end = strchr(at, '\n');
    if (end)
        *end = '\0';
    if (strcmp(at, "/") != 0)
        snprintf(out, capacity, "%s", at);
}

int rt_machine_cores(void)
{
    int cores = 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    else
        cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    char group[2048], path[2200], buf[64];
    int64_t quota = 0, period = 0;
    own_cgroup(group, sizeof group);
    /* The CPU quotas of the cgroup and of all its ancestors apply. */
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        if (read_file(path, buf, sizeof buf) && strncmp(buf, "max", 3) != 0) {
            long long q = 0, p = 0;
            if (sscanf(buf, "%lld %lld", &q, &p) == 2 && q > 0 && p > 0) {
                int n = (int)((q + p - 1) / p);
                if (n < cores)
                    cores = n;
            }
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    if (read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota) && quota > 0 &&
        read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period) && period > 0) {
        int n = (int)((quota + period - 1) / period);
        if (n < cores)
            cores = n;
    }
    return cores < 1 ? 1 : cores;
}

int64_t rt_machine_free_memory(void)
{
    int64_t kib, best = INT64_MAX;
    if (read_key("/proc/meminfo", "MemAvailable", &kib))
        best = kib * 1024;
    char group[2048], path[2200];
    own_cgroup(group, sizeof group);
    for (;;) {
        int64_t limit, used, cache = 0;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        if (read_number(path, &limit)) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
            if (read_number(path, &used)) {
                snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
                read_key(path, "inactive_file", &cache);
                int64_t left = limit - (used - cache);
                if (left < best)
                    best = left < 0 ? 0 : left;
            }
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    int64_t limit, used;
    if (read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", &limit) &&
        read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes", &used) && limit - used < best)
        best = limit > used ? limit - used : 0;
    return best;
}

int64_t rt_machine_resident(void)
{
    char buf[128];
    long long pages = 0;
    if (!read_file("/proc/self/statm", buf, sizeof buf) || sscanf(buf, "%*s %lld", &pages) != 1)
        return 0;
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

enum rt_vectors rt_machine_vectors(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return RT_VECTORS_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return RT_VECTORS_AVX2;
#endif
    return RT_VECTORS_BASE;
}

bool rt_machine_has_bf16(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

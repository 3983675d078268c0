#include "kernels/string/regex.h"

#include <re2/re2.h>

#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>

struct kn_regex {
    kn_regex(const std::string &pattern, const RE2::Options &options) : re(pattern, options)
    {
    }

    RE2 re;
    size_t refs = 1; /* guarded by `lock` */
};

namespace
{

/* The compiled expressions, by pattern. A session retains the expressions of its nodes, so that a
 * pattern is compiled only once, although every specialisation of a node requests it. */
std::mutex lock;
std::unordered_map<std::string, kn_regex *> &in_use()
{
    /* never freed, so that it stays valid while the program exits */
    static auto *map = new std::unordered_map<std::string, kn_regex *>;
    return *map;
}

kn_regex *find(const std::string &pattern)
{
    const std::lock_guard<std::mutex> guard(lock);
    const auto it = in_use().find(pattern);
    if (it == in_use().end())
        return nullptr;
    it->second->refs++;
    return it->second;
}

/* Compiles a pattern. While many patterns are in use, a further one gets less memory for its
 * states, unless its program needs more. RE2 forgets states if it has no memory for them. */
kn_regex *make(const std::string &text)
{
    RE2::Options options;
    std::unique_lock<std::mutex> guard(lock);
    const bool has_many = in_use().size() >= KN_REGEX_MANY;

    guard.unlock();
    options.set_log_errors(false);
    options.set_max_mem(has_many ? KN_REGEX_LESS_MEMORY : KN_REGEX_MEMORY);
    auto *made = new kn_regex(text, options);
    if (!has_many || made->re.error_code() != RE2::ErrorPatternTooLarge)
        return made;
    delete made;
    options.set_max_mem(KN_REGEX_MEMORY);
    return new kn_regex(text, options);
}

} // namespace

/* Returns the number of escapes of Unicode classes (\pL, \P{Greek}). */
static size_t count_classes(const char *pattern, size_t n)
{
    size_t classes = 0;

    for (size_t i = 0; i + 1 < n; i++)
        if (pattern[i] == '\\') {
            i++;
            classes += pattern[i] == 'p' || pattern[i] == 'P';
        }
    return classes;
}

struct kn_regex *kn_regex_get(const char *pattern, size_t n, char *why, size_t size)
try {
    /* RE2 limits the program's memory, but not the memory of the parsed pattern. */
    if (n > KN_REGEX_MAX_PATTERN || count_classes(pattern, n) > KN_REGEX_MAX_CLASSES) {
        std::snprintf(why, size, "pattern too large - compile failed");
        return nullptr;
    }
    const std::string text(pattern, n);
    if (kn_regex *known = find(text))
        return known;
    auto *made = make(text);
    if (!made->re.ok()) {
        std::snprintf(why, size, "%s", made->re.error().c_str());
        delete made;
        return nullptr;
    }
    const std::lock_guard<std::mutex> guard(lock);
    try {
        const auto at = in_use().emplace(text, made);
        if (!at.second) { /* another thread has compiled the same pattern in the meantime */
            at.first->second->refs++;
            delete made;
            return at.first->second;
        }
    } catch (...) {
        delete made;
        throw;
    }
    return made;
} catch (...) {
    std::snprintf(why, size, "out of memory");
    return nullptr;
}

void kn_regex_drop(struct kn_regex *re)
{
    if (!re)
        return;
    {
        const std::lock_guard<std::mutex> guard(lock);
        if (--re->refs)
            return;
        in_use().erase(re->re.pattern());
    }
    delete re;
}

int64_t kn_regex_size(const struct kn_regex *re)
{
    const int size = re->re.ProgramSize();
    return size < 1 ? 1 : size;
}

int kn_regex_groups(const struct kn_regex *re)
{
    return re->re.NumberOfCapturingGroups();
}

bool kn_regex_matches(const struct kn_regex *re, const char *text, size_t n, bool *is_match)
try {
    *is_match = re->re.Match(re2::StringPiece(text, n), 0, n, RE2::ANCHOR_BOTH, nullptr, 0);
    return true;
} catch (...) {
    return false;
}

bool kn_regex_find(const struct kn_regex *re, const char *text, size_t n, size_t from,
                   struct kn_group *group, int n_groups)
try {
    re2::StringPiece found[KN_REGEX_GROUPS];
    const re2::StringPiece all(text, n);

    group[0] = {nullptr, 0};
    if (!re->re.Match(all, from, n, RE2::UNANCHORED, found, n_groups))
        return true;
    for (int i = 0; i < n_groups; i++)
        group[i] = {found[i].data(), found[i].size()};
    return true;
} catch (...) {
    return false;
}

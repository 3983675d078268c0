#include "tests/support/test.h"

#include "server/versions/policy.h"

struct move {
    enum srv_move move;
    int index;
};

/* Returns the first move that the policy decides, for versions in any order. */
static struct move first_move(const struct srv_version_view *views, int n, bool unload_before_load)
{
    struct srv_version_view sorted[8];
    enum srv_move moves[8];
    int index[8];
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && sorted[k - 1].version < views[i].version; k--) {
            sorted[k] = sorted[k - 1];
            index[k] = index[k - 1];
        }
        sorted[k] = views[i];
        index[k] = i;
    }
    srv_policy_decide(sorted, n, unload_before_load, moves);
    for (int i = n; i-- > 0;)
        if (moves[i] == SRV_MOVE_UNLOAD)
            return (struct move){SRV_MOVE_UNLOAD, index[i]};
    for (int i = 0; i < n; i++)
        if (moves[i] == SRV_MOVE_LOAD)
            return (struct move){SRV_MOVE_LOAD, index[i]};
    return (struct move){SRV_MOVE_NONE, -1};
}

#define DECIDE_BY(unload_before_load, ...)                                                         \
    first_move((const struct srv_version_view[]){__VA_ARGS__},                                     \
               (int)(sizeof((const struct srv_version_view[]){__VA_ARGS__}) /                      \
                     sizeof(struct srv_version_view)),                                             \
               unload_before_load)
#define DECIDE(...) DECIDE_BY(false, __VA_ARGS__)
#define V(version, state, wanted, may_load)                                                        \
    {                                                                                              \
        version, state, wanted, may_load                                                           \
    }

static void expect(struct move d, enum srv_move move, int index)
{
    assert_int_equal(d.move, move);
    assert_int_equal(d.index, index);
}

static void nothing_known_means_nothing_to_do(void **state)
{
    (void)state;
    expect(first_move(NULL, 0, false), SRV_MOVE_NONE, -1);
}

static void the_highest_wanted_version_is_loaded_first(void **state)
{
    (void)state;
    expect(DECIDE(V(1, SRV_START, true, true), V(3, SRV_START, true, true),
                  V(2, SRV_START, true, true)),
           SRV_MOVE_LOAD, 1);
    expect(DECIDE(V(1, SRV_START, true, true), V(3, SRV_START, true, false)), SRV_MOVE_LOAD, 0);
    expect(DECIDE(V(1, SRV_START, false, true)), SRV_MOVE_NONE, -1);
}

static void an_old_version_serves_until_the_new_one_does(void **state)
{
    (void)state;
    expect(DECIDE(V(1, SRV_AVAILABLE, false, false), V(2, SRV_START, true, true)), SRV_MOVE_LOAD,
           1);
    expect(DECIDE(V(1, SRV_AVAILABLE, false, false), V(2, SRV_LOADING, true, false)), SRV_MOVE_NONE,
           -1);
    expect(DECIDE(V(1, SRV_AVAILABLE, false, false), V(2, SRV_AVAILABLE, true, false)),
           SRV_MOVE_UNLOAD, 0);
}

static void an_old_version_serves_on_when_the_new_one_failed(void **state)
{
    (void)state;
    expect(DECIDE(V(1, SRV_AVAILABLE, false, false), V(2, SRV_END, true, false)), SRV_MOVE_NONE,
           -1);
}

static void of_two_unwanted_versions_the_lower_one_goes(void **state)
{
    (void)state;
    expect(DECIDE(V(2, SRV_AVAILABLE, false, false), V(1, SRV_AVAILABLE, false, false),
                  V(3, SRV_LOADING, true, false)),
           SRV_MOVE_UNLOAD, 1);
}

static void everything_goes_when_nothing_is_wanted(void **state)
{
    (void)state;
    expect(DECIDE(V(1, SRV_AVAILABLE, false, false)), SRV_MOVE_UNLOAD, 0);
    expect(DECIDE(V(1, SRV_UNLOADING, false, false)), SRV_MOVE_NONE, -1);
}

static void resource_preserving_unloads_before_it_loads(void **state)
{
    (void)state;
    expect(DECIDE_BY(true, V(1, SRV_AVAILABLE, false, false), V(2, SRV_START, true, true)),
           SRV_MOVE_UNLOAD, 0);
    expect(DECIDE_BY(true, V(1, SRV_UNLOADING, false, false), V(2, SRV_START, true, true)),
           SRV_MOVE_NONE, -1);
    expect(DECIDE_BY(true, V(1, SRV_END, false, false), V(2, SRV_START, true, true)), SRV_MOVE_LOAD,
           1);
    /* An incomplete or failed version does not cause another version to be unloaded. */
    expect(DECIDE_BY(true, V(1, SRV_AVAILABLE, false, false), V(2, SRV_START, true, false)),
           SRV_MOVE_NONE, -1);
    expect(DECIDE_BY(true, V(1, SRV_AVAILABLE, false, false), V(2, SRV_END, true, false)),
           SRV_MOVE_NONE, -1);
    /* A version that is still wanted stays loaded when another wanted version is loaded. */
    expect(DECIDE_BY(true, V(1, SRV_AVAILABLE, true, false), V(2, SRV_START, true, true)),
           SRV_MOVE_LOAD, 1);
}

static void all_moves_are_decided_together(void **state)
{
    (void)state;
    const struct srv_version_view v[] = {
        V(6, SRV_START, true, true),       V(5, SRV_START, true, false),
        V(4, SRV_START, true, true),       V(3, SRV_AVAILABLE, false, false),
        V(2, SRV_AVAILABLE, false, false), V(1, SRV_AVAILABLE, false, false)};
    static const enum srv_move preserving[] = {SRV_MOVE_LOAD, SRV_MOVE_NONE,   SRV_MOVE_LOAD,
                                               SRV_MOVE_NONE, SRV_MOVE_UNLOAD, SRV_MOVE_UNLOAD};
    static const enum srv_move unloading[] = {SRV_MOVE_NONE,   SRV_MOVE_NONE,   SRV_MOVE_NONE,
                                              SRV_MOVE_UNLOAD, SRV_MOVE_UNLOAD, SRV_MOVE_UNLOAD};
    enum srv_move moves[6];
    srv_policy_decide(v, 6, false, moves);
    assert_memory_equal(moves, preserving, sizeof moves);
    srv_policy_decide(v, 6, true, moves);
    assert_memory_equal(moves, unloading, sizeof moves);
}

static void only_legal_moves_are_made(void **state)
{
    (void)state;
    static const enum srv_state all[] = {SRV_START, SRV_LOADING, SRV_AVAILABLE, SRV_UNLOADING,
                                         SRV_END};
    int legal = 0;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++)
            legal += srv_state_may_become(all[i], all[k]);
    assert_int_equal(legal, 7);
    assert_false(srv_state_may_become(SRV_AVAILABLE, SRV_END));
    assert_false(srv_state_may_become(SRV_UNLOADING, SRV_AVAILABLE));
    assert_true(srv_state_may_become(SRV_END, SRV_START));
}

/* Follows the policy's decisions from every combination of states. The decisions must terminate. A
 * model that had an available version must keep one as long as any version is wanted. */
static void every_start_comes_to_rest_without_a_gap(void **state)
{
    (void)state;
    static const enum srv_state all[] = {SRV_START, SRV_AVAILABLE, SRV_END};
    for (int code = 0; code < 6 * 6 * 6; code++) {
        struct srv_version_view v[3];
        int had = 0, wanted = 0, c = code;
        for (int i = 0; i < 3; i++, c /= 6) {
            v[i] = (struct srv_version_view){i + 1, all[c % 3], c % 6 / 3 != 0, true};
            had += v[i].state == SRV_AVAILABLE;
            wanted += v[i].wanted;
        }
        int steps = 0;
        for (;; steps++) {
            struct move d = first_move(v, 3, false);
            if (d.move == SRV_MOVE_NONE)
                break;
            assert_true(steps < 10);
            struct srv_version_view *w = &v[d.index];
            if (d.move == SRV_MOVE_LOAD) {
                assert_int_equal(w->state, SRV_START);
                w->state = SRV_AVAILABLE;
            } else {
                assert_int_equal(w->state, SRV_AVAILABLE);
                assert_false(w->wanted);
                w->state = SRV_END;
            }
            int now = 0;
            for (int i = 0; i < 3; i++)
                now += v[i].state == SRV_AVAILABLE;
            if (had && wanted)
                assert_true(now > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_known_means_nothing_to_do),
        cmocka_unit_test(the_highest_wanted_version_is_loaded_first),
        cmocka_unit_test(an_old_version_serves_until_the_new_one_does),
        cmocka_unit_test(an_old_version_serves_on_when_the_new_one_failed),
        cmocka_unit_test(of_two_unwanted_versions_the_lower_one_goes),
        cmocka_unit_test(everything_goes_when_nothing_is_wanted),
        cmocka_unit_test(resource_preserving_unloads_before_it_loads),
        cmocka_unit_test(all_moves_are_decided_together),
        cmocka_unit_test(only_legal_moves_are_made),
        cmocka_unit_test(every_start_comes_to_rest_without_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

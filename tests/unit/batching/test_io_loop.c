/* Tests how an I/O loop receives messages and retires versions. */
#include "tests/unit/batching/scheduler_fixture.h"

static int opened[4], n_opened;
struct letter {
    struct srv_message message;
    int number;
};

static void receive_letter(struct srv_io_loop *io_loop, struct srv_message *message)
{
    (void)io_loop;
    opened[n_opened++] = ((struct letter *)message)->number;
}

static void messages_are_received_in_the_order_posted(void **state)
{
    (void)state;
    struct world *w = sched_begin(1, true, false);
    struct letter letter[4];
    for (int i = 0; i < 4; i++) {
        letter[i] = (struct letter){.message = {.receive = receive_letter}, .number = i};
        srv_message_post(&w->io_loop, &letter[i].message);
    }
    srv_io_loop_begin_turn(&w->io_loop);
    assert_int_equal(n_opened, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(opened[i], i);
    sched_end(w);
}

static int n_confirmed;
static void count(struct srv_retirement *r)
{
    (void)r;
    n_confirmed++;
}

static void a_retirement_is_answered_once_no_handle_is_held(void **state)
{
    (void)state;
    struct world *w = sched_begin(1, true, false);
    struct srv_retirement r = {
        .message = {.receive = srv_retirement_receive}, .version = &w->version, .confirm = count};
    srv_hold(&w->io_loop, &w->version);
    srv_message_post(&w->io_loop, &r.message);
    srv_io_loop_begin_turn(&w->io_loop);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(n_confirmed, 0);
    srv_release(&w->io_loop, &w->version);
    srv_io_loop_begin_turn(&w->io_loop);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(n_confirmed, 1);
    assert_null(w->io_loop.retiring);
    sched_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_received_in_the_order_posted),
        cmocka_unit_test(a_retirement_is_answered_once_no_handle_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

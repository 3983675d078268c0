/* Tests the order in which a background thread handles calls. The first call of each test blocks
 * the thread until the other calls are queued, so the order does not depend on timing. */
#include "tests/support/test.h"

#include <semaphore.h>

#include "server/grpc/grpc_internal.h"

enum { MAX_CALLS = 16, HIGHEST = SRV_GRPC_CONNECTIONS - 1 };

static struct srv_grpc *grpc;
static struct srv_grpc_loop *loop;
static struct srv_call calls[MAX_CALLS];
static int n_calls;
static sem_t has_begun, may_end;
static char order[MAX_CALLS * 3 + 1]; /* names of the handled calls, in order */

static int begin(void **state)
{
    struct rt_error err = {0};

    (void)state;
    grpc = calloc(1, sizeof *grpc);
    loop = calloc(1, sizeof *loop);
    assert_non_null(grpc);
    assert_non_null(loop);
    loop->grpc = grpc;
    n_calls = 0;
    order[0] = '\0';
    assert_int_equal(sem_init(&has_begun, 0, 0), 0);
    assert_int_equal(sem_init(&may_end, 0, 0), 0);
    assert_ok(srv_grpc_background_start(&grpc->background, &err), &err);
    return 0;
}

/* Lets the held call end, and returns once the thread has handled all calls. */
static void finish(void)
{
    sem_post(&may_end);
    srv_grpc_background_stop(&grpc->background);
}

static int end(void **state)
{
    (void)state;
    sem_destroy(&has_begun);
    sem_destroy(&may_end);
    free(loop);
    free(grpc);
    return 0;
}

static bool record(struct srv_call *c)
{
    const size_t n = strlen(order);

    snprintf(order + n, sizeof order - n, "%.2s ", c->peer);
    memset(c, 0xff, sizeof *c); /* the call may be freed once its work is done */
    return false;
}

static bool hold(struct srv_call *c)
{
    sem_post(&has_begun);
    sem_wait(&may_end);
    return record(c);
}

/* Performs one of the steps of a call. The member n_in counts the steps that are left. */
static bool step(struct srv_call *c)
{
    const struct srv_call call = *c;

    record(c);
    if (!call.n_in)
        return false;
    *c = call;
    c->n_in--;
    return true;
}

static bool hold_first_step(struct srv_call *c)
{
    sem_post(&has_begun);
    sem_wait(&may_end);
    c->background = step;
    return step(c);
}

/* Queues a call. `name` is a letter for the connection followed by the number of the call. */
static void queue_steps(unsigned connection, const char *name, bool (*work)(struct srv_call *c),
                        size_t n_steps)
{
    struct srv_call *c = &calls[n_calls++];

    memset(c, 0, sizeof *c);
    c->loop = loop;
    c->connection = connection;
    c->n_in = n_steps - 1;
    snprintf(c->peer, sizeof c->peer, "%s", name);
    srv_call_in_background(c, SRV_BACKGROUND_LARGE, work);
}

static void queue(unsigned connection, const char *name, bool (*work)(struct srv_call *c))
{
    queue_steps(connection, name, work, 1);
}

static void connections_take_turns(void **state)
{
    (void)state;
    queue(3, "a1", hold);
    sem_wait(&has_begun);
    queue(3, "a2", record);
    queue(3, "a3", record);
    queue(3, "a4", record);
    queue(0, "b1", record);
    queue(0, "b2", record);
    queue(HIGHEST, "c1", record);
    finish();
    assert_string_equal(order, "a1 b1 c1 a2 b2 a3 a4 ");
}

/* Between two of its calls, a connection waits for one call of every other connection, even if that
 * other connection's call arrived last. */
static void a_call_waits_for_one_call_of_each_other_connection(void **state)
{
    (void)state;
    queue(3, "a1", hold);
    sem_wait(&has_begun);
    queue(3, "a2", hold);
    queue(3, "a3", record);
    sem_post(&may_end);
    sem_wait(&has_begun); /* a2 is being handled */
    queue(0, "b1", record);
    queue(HIGHEST, "c1", hold);
    queue(3, "a4", record);
    sem_post(&may_end);
    sem_wait(&has_begun); /* c1 is being handled */
    queue(HIGHEST, "c2", record);
    queue(0, "b2", record);
    finish();
    assert_string_equal(order, "a1 a2 b1 c1 a3 b2 c2 a4 ");
}

/* The calls of a connection keep their order, even if its queue was empty between them. */
static void the_calls_of_a_connection_keep_their_order(void **state)
{
    (void)state;
    queue(7, "a1", hold);
    sem_wait(&has_begun);
    sem_post(&may_end);
    queue(7, "a2", hold);
    sem_wait(&has_begun);
    queue(7, "a3", record);
    queue(7, "a4", record);
    finish();
    assert_string_equal(order, "a1 a2 a3 a4 ");
}

/* A turn is one step. The connection's other calls wait until the last step of its first call has
 * ended. */
static void connections_take_turns_at_steps(void **state)
{
    (void)state;
    queue_steps(3, "a1", hold_first_step, 4);
    sem_wait(&has_begun);
    queue(3, "a2", record);
    queue_steps(0, "b1", step, 2);
    queue(HIGHEST, "c1", record);
    queue(0, "b2", record);
    finish();
    assert_string_equal(order, "a1 b1 c1 a1 b1 a1 b2 a1 a2 ");
}

static void a_call_waits_for_the_steps_of_earlier_ones(void **state)
{
    (void)state;
    queue_steps(7, "a1", hold_first_step, 3);
    sem_wait(&has_begun);
    queue(7, "a2", record);
    queue(7, "a3", record);
    finish();
    assert_string_equal(order, "a1 a1 a1 a2 a3 ");
}

static void steps_need_no_further_calls(void **state)
{
    (void)state;
    queue_steps(7, "a1", hold_first_step, 3);
    sem_wait(&has_begun);
    finish();
    assert_string_equal(order, "a1 a1 a1 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(connections_take_turns, begin, end),
        cmocka_unit_test_setup_teardown(a_call_waits_for_one_call_of_each_other_connection, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_calls_of_a_connection_keep_their_order, begin, end),
        cmocka_unit_test_setup_teardown(connections_take_turns_at_steps, begin, end),
        cmocka_unit_test_setup_teardown(a_call_waits_for_the_steps_of_earlier_ones, begin, end),
        cmocka_unit_test_setup_teardown(steps_need_no_further_calls, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

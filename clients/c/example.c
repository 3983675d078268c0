/*
 * Asks a server for half_plus_two of some numbers: slipway_example HOST:PORT [NUMBER...]. Built
 * outside of this tree by
 *     cc example.c $(pkg-config --cflags --libs slipway-client)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <slipway_client.h>

static int say(const char *what, const struct slipway_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, slipway_code_name(err->code), err->text);
    return 1;
}

int main(int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:8500";
    float x[16] = {1, 2, 5};
    int n = argc > 2 ? 0 : 3;
    for (int i = 2; i < argc && n < 16; i++)
        x[n++] = strtof(argv[i], NULL);

    struct slipway_error err;
    const struct slipway_options options = {.address = address};
    struct slipway_client *client = slipway_client_new(&options, &err);
    if (!client)
        return say(address, &err);

    const struct slipway_model model = {.name = "half_plus_two"};
    const struct slipway_call call = {.timeout_ms = 5000};
    const struct slipway_tensor input = {
        .name = "x", .dtype = SLIPWAY_FLOAT, .rank = 1, .dim = {n}, .data = x};
    struct slipway_answer *answer;
    int status = 0;
    if (slipway_predict(client, &model, &input, 1, &call, &answer, &err))
        status = say(model.name, &err);
    else {
        const struct slipway_tensor *y = slipway_output(answer, "y");
        if (y && y->dtype == SLIPWAY_FLOAT) {
            const float *values = y->data;
            printf("version %" PRId64 ":", answer->version);
            for (int64_t i = 0; i < slipway_count(y); i++)
                printf(" %g", (double)values[i]);
            printf("\n");
        }
        slipway_answer_free(answer);
    }
    slipway_client_free(client);
    return status;
}

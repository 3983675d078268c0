/*
 * An example client that requests the status, the metadata and predictions of the model
 * half_plus_two from a server. Usage:
 *     slipway_example HOST:PORT [NUMBER...]
 * To build the example outside this source tree:
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

static int print_status(struct slipway_client *client, const struct slipway_model *model,
                        const struct slipway_call *call)
{
    struct slipway_error err;
    struct slipway_status *status;
    if (slipway_status(client, model, call, &status, &err))
        return say(model->name, &err);
    for (int i = 0; i < status->n_versions; i++)
        printf("version %" PRId64 " is %s\n", status->versions[i].version,
               slipway_state_name(status->versions[i].state));
    slipway_status_free(status);
    return 0;
}

static int print_inputs(struct slipway_client *client, const struct slipway_model *model,
                        const struct slipway_call *call)
{
    struct slipway_error err;
    struct slipway_metadata *metadata;
    if (slipway_metadata(client, model, call, &metadata, &err))
        return say(model->name, &err);
    for (int i = 0; i < metadata->n_signatures; i++) {
        const struct slipway_signature *s = &metadata->signatures[i];
        printf("%s takes", s->name);
        for (int k = 0; k < s->n_inputs; k++)
            printf(" %s: %s", s->inputs[k].name, slipway_dtype_name(s->inputs[k].dtype));
        printf("\n");
    }
    slipway_metadata_free(metadata);
    return 0;
}

static int print_prediction(struct slipway_client *client, const struct slipway_model *model,
                            const float *x, int n, const struct slipway_call *call)
{
    const struct slipway_tensor input = {
        .name = "x", .dtype = SLIPWAY_FLOAT, .rank = 1, .dim = {n}, .data = x};
    struct slipway_error err;
    struct slipway_answer *answer;
    if (slipway_predict(client, model, &input, 1, call, &answer, &err))
        return say(model->name, &err);
    const struct slipway_tensor *y = slipway_output(answer, "y");
    if (y && y->dtype == SLIPWAY_FLOAT) {
        const float *values = y->data;
        printf("version %" PRId64 " says", answer->version);
        for (int64_t i = 0; i < slipway_count(y); i++)
            printf(" %g", (double)values[i]);
        printf("\n");
    }
    slipway_answer_free(answer);
    return 0;
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
    int status = print_status(client, &model, &call);
    if (!status)
        status = print_inputs(client, &model, &call);
    if (!status)
        status = print_prediction(client, &model, x, n, &call);
    slipway_client_free(client);
    return status;
}

/*
 * The command line. One table gives names, types, defaults, limits and help of the flags, and
 * FLAGS.md. The options are read in main.c and resolved by settings.h, and do not change
 * afterwards.
 */
#ifndef SRV_OPTIONS_H
#define SRV_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/status.h"

enum { SRV_MAX_FLAGS = 192 };
enum { SRV_MAX_BATCH_ROWS = 1 << 20 }; /* limit of --max_batch_rows and allowed_batch_sizes */
/* a boolean whose absence has a meaning of its own */
enum srv_maybe { SRV_UNSAID, SRV_NO, SRV_YES };

struct srv_options {
    bool as_tensorflow; /* called as tensorflow_model_server */

    /* TensorFlow Serving's flags, with its names and defaults */
    int64_t port, rest_api_port, rest_api_num_threads, rest_api_timeout_in_ms;
    bool rest_api_enable_cors_support;
    /* absent: signatures accepted by row-wise analysis are merged, depending on the load */
    enum srv_maybe enable_batching;
    bool enable_per_model_batching_parameters;
    bool allow_version_labels_for_unavailable_models;
    const char *batching_parameters_file, *model_config_file, *model_name, *model_base_path;
    const char *grpc_socket_path, *saved_model_tags, *grpc_channel_arguments;
    const char *monitoring_config_file, *tensorflow_session_config_file, *platform_config_file,
        *thread_pool_factory_config_file;
    int64_t model_config_file_poll_wait_seconds, file_system_poll_wait_seconds;
    int64_t num_load_threads, num_unload_threads, max_num_load_retries, load_retry_interval_micros;
    bool enable_model_warmup;
    int64_t num_request_iterations_for_warmup; /* 0 means 1 */
    bool enable_serialization_as_tensor_content, enable_signature_method_name_check;
    bool enable_grpc_healthcheck_service;
    bool enable_session_service;
    int64_t grpc_max_threads;
    const char *ssl_config_file;
    bool use_alts_credentials;
    int64_t tensorflow_session_parallelism, tensorflow_intra_op_parallelism,
        tensorflow_inter_op_parallelism;

    /* Slipway's own flags */
    const char *models; /* --models DIR: every sub-directory is a model */
    /* where reload requests come in, and their token */
    const char *admin_address, *admin_socket, *admin_token_file;
    const char *model_root; /* "": a reload may name any base path */
    bool enable_grpc_reflection;
    const char *bind_address; /* 127.0.0.1 as slipway serve */
    int64_t max_body_bytes;   /* 256 MiB by default */
    int64_t max_bytes_in_flight;
    int64_t max_grpc_calls;
    int64_t max_header_bytes;
    int64_t max_queue_jobs, max_queue_bytes; /* per version */
    int64_t max_batch_rows;
    int64_t inline_max_us;    /* 40 by default; 0: never inline */
    int64_t num_workers;      /* 0: one per usable core */
    int64_t cores_per_run;    /* 0: as num_workers */
    int64_t num_rest_threads; /* 0: one per four cores, at least one */
    int64_t num_grpc_threads; /* 0: one per four cores, at least one */
    int64_t drain_timeout_ms; /* the value of --drain_timeout, which is in seconds */
    int64_t drain_delay_ms;   /* -1: 5 s as process 1, else 0 */
    /* as tensorflow_model_server: how long the start waits for a missing model */
    int64_t model_wait_seconds;
    int64_t run_memory_limit_bytes;
    int64_t total_model_memory_limit_bytes; /* 0: none */
    int64_t run_memory_total_bytes;         /* 0: half of the free memory, see server.c */
    int64_t run_memory_idle_bytes;
    int64_t state_memory_limit_bytes;
    int64_t max_connections;
    int64_t request_read_timeout_ms; /* time in which a whole request must arrive */
    const char *rest_tls_cert_file, *rest_tls_key_file, *rest_tls_client_ca_file; /* PEM files */
    bool rest_api_enable_compression; /* compresses responses for clients that accept gzip */
    int64_t num_model_warmup_threads;
    int64_t request_log_file_bytes, request_log_file_ms;
    double golden_tolerance; /* tolerance for versions without a tolerance file */
    bool allow_unsupported_signatures;
    const char *precision; /* "float32" or "bf16" */
    bool fusion, winograd, autotune, specialise;
    const char *autotune_cache;
    bool log_device_placement;
    bool access_log;
    const char *log_format; /* "text" or "json" */
    int64_t log_level;      /* 0 errors .. 3 debug */
    bool strict_flags;
    const char *version_transition; /* "availability_preserving" or "resource_preserving" */

    /* Set by srv_settings_resolve: */
    const char *prometheus_path; /* "": no page */
    /* the parameters in platform_config_file, or NULL */
    const struct srv_batching *platform_batching;

    /* The last value given for each flag, in the table's order; NULL: not given. */
    const char *given[SRV_MAX_FLAGS];
};

enum srv_parse { SRV_PARSE_RUN, SRV_PARSE_EXIT_0, SRV_PARSE_EXIT_USAGE };

/*
 * Sets the defaults, which depend on as_tensorflow, then reads argv[1..].
 *
 * As tensorflow_model_server, parsing follows that program. A value comes only behind "="; a
 * boolean is --name, --name=true or --name=false. A bad value is reported, the other flags are
 * still read, then usage is printed and the program ends. The program also ends when the first
 * argument that is no flag is --help. Any other argument that is no flag is reported with the
 * usage, and the server starts unless --strict_flags.
 *
 * As slipway, "--name value" is accepted too, and the first bad value ends the program.
 */
enum srv_parse srv_options_parse(struct srv_options *o, bool as_tensorflow, int argc,
                                 const char *const *argv, FILE *out);
/* Returns whether the flag was on the command line. */
bool srv_options_is_given(const struct srv_options *o, const char *name);
/* Iterates over the given flags that have no effect, with the reason. *i is 0 at first. False:
 * there are no more. */
bool srv_options_next_note(const struct srv_options *o, int *i, const char **name,
                           const char **reason);
void srv_options_help(FILE *out, bool as_tensorflow);
void srv_options_markdown(FILE *out); /* writes FLAGS.md */

#endif

/*
 * The command-line options. A table (flags.inc) defines the names, types, defaults, limits and help
 * texts of the flags. FLAGS.md is generated from it. main.c parses the command line, and
 * srv_settings_resolve (settings.h) completes the options. Afterwards they do not change.
 */
#ifndef SRV_OPTIONS_H
#define SRV_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/status.h"

enum { SRV_MAX_FLAGS = 192 };
/* Maximum value of --max_batch_rows and allowed_batch_sizes. */
enum { SRV_MAX_BATCH_ROWS = 1 << 20 };
enum { SRV_MAX_WORKERS = 1024 };       /* maximum value of --num_workers and --cores_per_run */
enum { SRV_MAX_OTLP_QUEUE = 1 << 20 }; /* maximum value of --otlp_queue_length */
/* a boolean that may also be unset */
enum srv_maybe { SRV_UNSET, SRV_NO, SRV_YES };

struct srv_options {
    bool as_tensorflow; /* whether the program was invoked as tensorflow_model_server */

    /* The flags of TensorFlow Serving, with its names and defaults. */
    int64_t port, rest_api_port, rest_api_num_threads, rest_api_timeout_in_ms;
    bool rest_api_enable_cors_support;
    /* SRV_UNSET if the flag was not given. The waiting requests for a signature are then merged if
     * the signature passes row-wise analysis. */
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
    /* number of times that each warm-up request is sent; 0 means 1 */
    int64_t num_request_iterations_for_warmup;
    bool enable_serialization_as_tensor_content, enable_signature_method_name_check;
    bool enable_grpc_healthcheck_service;
    bool enable_session_service;
    int64_t grpc_max_threads;
    const char *ssl_config_file;
    bool use_alts_credentials;
    int64_t tensorflow_session_parallelism, tensorflow_intra_op_parallelism,
        tensorflow_inter_op_parallelism;

    /* Slipway's own flags */
    const char *models; /* directory given by --models; every sub-directory is a model */
    /* TCP address and UNIX socket for reload requests, and the file with the token for these
     * requests */
    const char *admin_address, *admin_socket, *admin_token_file;
    /* directory that must contain the models of a reload request, or "" for any directory */
    const char *model_root;
    /* comma-separated directories below which ops of models may read and write files */
    const char *model_read_directories, *model_write_directories;
    bool enable_grpc_reflection;
    /* address to which the ports are bound; 127.0.0.1 by default for `slipway serve` */
    const char *bind_address;
    int64_t max_body_bytes; /* maximum size of a request body, 256 MiB by default */
    int64_t max_bytes_in_flight;
    int64_t max_grpc_calls;
    int64_t max_header_bytes;
    /* maximum number of queued jobs per version, and maximum total size of these jobs in bytes */
    int64_t max_queue_jobs, max_queue_bytes;
    int64_t max_waiting_runs;
    int64_t system_shared_memory_bytes;
    /* "" for no quotas, "tls", or the lower-case name of the header that names the client */
    const char *quota_client;
    double quota_requests_per_second; /* 0 means no limit */
    int64_t quota_bytes_per_second;   /* 0 means no limit */
    double quota_queue_share;         /* 0 means no limit */
    int64_t quota_max_clients;
    int64_t max_batch_rows;
    /* maximum expected run time in microseconds of an inline job; 0 means that no job runs
     * inline */
    int64_t inline_max_us;
    int64_t num_workers;   /* number of workers; 0 means one per usable core */
    int64_t cores_per_run; /* 0 means num_workers */
    /* number of REST threads; 0 means one per four cores, but at least one */
    int64_t num_rest_threads;
    /* number of gRPC threads; 0 means one per four cores, but at least one */
    int64_t num_grpc_threads;
    /* value of --default_deadline_seconds, in milliseconds; 0 means no deadline */
    int64_t default_deadline_ms;
    int64_t drain_timeout_ms;
    /* delay in milliseconds before the drain; -1 means 5000 if the server is process 1, and 0
     * otherwise */
    int64_t drain_delay_ms;
    /* Maximum time in seconds for which a model without an available version delays readiness, or 0
     * for no limit. After this time, the startup of tensorflow_model_server fails unless the model
     * is being loaded. */
    int64_t model_wait_seconds;
    int64_t run_memory_limit_bytes;
    /* memory limit of all models together; 0 means no limit */
    int64_t total_model_memory_limit_bytes;
    /* maximum memory of all runs together; 0 means half of the memory that is free at startup */
    int64_t run_memory_total_bytes;
    int64_t run_memory_idle_bytes;
    int64_t state_memory_limit_bytes;
    int64_t max_connections;
    /* time limit in milliseconds for a complete request to arrive */
    int64_t request_read_timeout_ms;
    /* paths of the PEM files of the REST port */
    const char *rest_tls_cert_file, *rest_tls_key_file, *rest_tls_client_ca_file;
    bool rest_api_enable_compression; /* whether to compress responses if the client accepts gzip */
    int64_t num_model_warmup_threads;
    int64_t request_log_file_bytes, request_log_file_ms;
    /* tolerance for golden responses of a version without a tolerance file */
    double golden_tolerance;
    bool allow_unsupported_signatures;
    const char *precision;      /* precision of the computation, "float32" or "bf16" */
    const char *gpus;           /* GPUs to use (runtime/core/device.h), "none" by default */
    int64_t gpu_slots;          /* number of streams of each GPU */
    double gpu_memory_fraction; /* usable fraction of each GPU's memory, or 0 for all of it */
    int64_t gpu_pinned_bytes;   /* maximum number of bytes of page-locked host memory */
    const char *gpu_precision;  /* precision on GPUs, "tf32" or "float32" */
    const char *gpu_on_fault;   /* reaction to the failure of a GPU, "exit" or "stop" */
    /* minimum time in milliseconds after which a run on a GPU counts as hanging, or 0 for never */
    int64_t gpu_hang_ms;
    bool fusion, winograd, autotune, specialise;
    const char *autotune_cache;
    bool log_device_placement;
    bool access_log;
    bool page; /* whether the web page is served */
    /* HOST:PORT at which the web page is served, or "" if the REST port serves it */
    const char *page_address;
    const char *page_hosts; /* comma-separated names under which browsers may read it */
    /* URL of the OpenTelemetry collector, or "" if traces are not exported */
    const char *otlp_endpoint;
    /* Whether otlp_endpoint contains the path of traces. Otherwise the path /v1/traces is
     * appended. */
    bool otlp_endpoint_is_complete;
    const char *otlp_headers, *otlp_certificate, *otlp_service_name, *otlp_resource_attributes;
    const char *otlp_client_certificate, *otlp_client_key; /* both or none */
    int64_t otlp_timeout_ms, otlp_interval_ms;
    int64_t otlp_queue_length; /* maximum number of requests and batches that wait for export */
    double trace_sampling_ratio;
    bool trace_sampling_by_parent;
    const char *log_format;
    int64_t log_level; /* from 0 (errors) to 3 (debug) */
    bool strict_flags;
    /* order of loading and unloading, "availability_preserving" or "resource_preserving" */
    const char *version_transition;

    /* srv_settings_resolve sets the members below. */
    const char *prometheus_path; /* path of the Prometheus page, or "" if there is none */
    /* the batching parameters in platform_config_file, or NULL */
    const struct srv_batching *platform_batching;

    /* the last given value of each flag in the order of the flag table, or NULL */
    const char *given[SRV_MAX_FLAGS];
};

enum srv_parse { SRV_PARSE_RUN, SRV_PARSE_EXIT_0, SRV_PARSE_EXIT_USAGE };

/*
 * Sets the defaults, which depend on as_tensorflow, and then parses argv[1..].
 *
 * If as_tensorflow is set, arguments are parsed as in tensorflow_model_server. A value must follow
 * "=". A boolean is --name, --name=true or --name=false. After an invalid value, the program parses
 * the other flags, prints the usage and exits. If the first unknown argument is --help, the program
 * also exits. After any other unknown argument, the program prints the usage, but starts the server
 * unless --strict_flags is set.
 *
 * If as_tensorflow is not set, "--name value" is accepted too, and the program exits at the first
 * invalid value.
 */
enum srv_parse srv_options_parse(struct srv_options *o, bool as_tensorflow, int argc,
                                 const char *const *argv, FILE *out);
/* Returns whether the flag `name` was given on the command line. */
bool srv_options_is_given(const struct srv_options *o, const char *name);
/* Finds the next given flag that has no effect, and the reason. *i must be 0 before the first call.
 * Returns false if no such flag remains. */
bool srv_options_next_note(const struct srv_options *o, int *i, const char **name,
                           const char **reason);
void srv_options_help(FILE *out, bool as_tensorflow);
void srv_options_markdown(FILE *out); /* writes FLAGS.md */

#endif

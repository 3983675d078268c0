#include "runtime/core/device.h"
#include "server/config/options.h"

#include <inttypes.h>
#include <string.h>

#include "server/config/edit_distance.h"
#include "server/replay/golden.h"
#include "server/json/json_number.h"
#include "server/base/number.h"
#include "server/replay/warmup.h"

enum kind {
    BOOLEAN,
    SWITCH, /* a boolean, written as on or off */
    MAYBE,  /* a boolean that may be unset, stored as enum srv_maybe */
    INTEGER,
    BYTES,   /* an integer with an optional suffix K, M or G */
    SECONDS, /* a number of seconds that may have a fraction; stored in milliseconds */
    TEXT,
    FLOAT, /* a non-negative number */
};

enum meaning {
    OURS,        /* a flag that only Slipway has */
    TFS,         /* a flag of TensorFlow Serving with the same meaning */
    TFS_IGNORED, /* a flag of TensorFlow Serving without an effect */
};

struct row {
    const char *name;
    enum kind kind;
    enum meaning meaning;
    /* offset of the value in struct srv_options; unused for TFS_IGNORED */
    size_t offset;
    /* default value of tensorflow_model_server */
    const char *as_tensorflow;
    /* default value of `slipway serve`, or NULL if as_tensorflow applies */
    const char *own;
    /* range of the value of an INTEGER, BYTES or SECONDS flag; for SECONDS, in milliseconds */
    int64_t min, max;
    const char *help;
};

#define AT(field) offsetof(struct srv_options, field)
#define ANY       INT64_MIN, INT64_MAX
#define COUNT     0, INT32_MAX
#define SIZE      0, INT64_MAX

/* clang-format off */
static const struct row rows[] = {
    {"port", INTEGER, TFS, AT(port), "8500", NULL, 0, 65535,
     "TCP port of the gRPC API; 0: none"},
    {"grpc_socket_path", TEXT, TFS, AT(grpc_socket_path), "", NULL, ANY,
     "also listen for gRPC on this UNIX socket"},
    {"rest_api_port", INTEGER, TFS, AT(rest_api_port), "0", "8501", 0, 65535,
     "TCP port of the REST API; 0: none; must differ from port"},
    {"rest_api_num_threads", INTEGER, TFS, AT(rest_api_num_threads), "0", NULL, ANY,
     "at most so many REST network threads; no thread waits for a request here, so few are enough"},
    {"rest_api_timeout_in_ms", INTEGER, TFS, AT(rest_api_timeout_in_ms), "30000", NULL, ANY,
     "deadline of a REST request; 0 or less: none"},
    {"rest_api_enable_cors_support", BOOLEAN, TFS, AT(rest_api_enable_cors_support), "false", NULL,
     ANY, "add CORS headers to REST responses"},
    {"enable_batching", MAYBE, TFS, AT(enable_batching), "", NULL, ANY,
     "absent: merge requests by load where rows are proved independent; true: of every signature "
     "that writes nothing, by batching_parameters_file; false: never"},
    {"batching_parameters_file", TEXT, TFS, AT(batching_parameters_file), "", NULL, ANY,
     "text BatchingParameters: sizes, waits and limits of batches; needs enable_batching"},
    {"enable_per_model_batching_parameters", BOOLEAN, TFS,
     AT(enable_per_model_batching_parameters), "false", NULL, ANY,
     "read batching_params.pbtxt in each version directory; a version without it is not batched"},
    {"allow_version_labels_for_unavailable_models", BOOLEAN, TFS,
     AT(allow_version_labels_for_unavailable_models), "false", "true", ANY,
     "let new labels point at versions that are not loaded yet"},
    {"model_config_file", TEXT, TFS, AT(model_config_file), "", NULL, ANY,
     "text ModelServerConfig; replaces model_name and model_base_path"},
    {"model_config_file_poll_wait_seconds", INTEGER, TFS, AT(model_config_file_poll_wait_seconds),
     "0", NULL, ANY, "re-read model_config_file after so many seconds; 0 or less: only on SIGHUP"},
    {"model_name", TEXT, TFS, AT(model_name), "default", NULL, ANY,
     "name of the model at model_base_path"},
    {"model_base_path", TEXT, TFS, AT(model_base_path), "", NULL, ANY,
     "directory that holds the model's numeric version directories; absolute"},
    {"num_load_threads", INTEGER, TFS, AT(num_load_threads), "0", NULL, 0, 256,
     "loads of each size that may go on at once: up to 0.02, 0.2 and 2 seconds of processor time, "
     "and longer ones; 0: two"},
    {"num_unload_threads", INTEGER, TFS, AT(num_unload_threads), "0", NULL, 0, 256,
     "versions that may be freed at once, on threads of low priority; 0: one"},
    {"max_num_load_retries", INTEGER, TFS, AT(max_num_load_retries), "5", NULL, ANY,
     "how often a failed load is tried again; a changed directory is tried again in any case"},
    {"load_retry_interval_micros", INTEGER, TFS, AT(load_retry_interval_micros), "60000000", NULL,
     ANY, "pause between two tries; less than 0: none"},
    {"file_system_poll_wait_seconds", INTEGER, TFS, AT(file_system_poll_wait_seconds), "1", NULL,
     ANY, "look for new versions this often; 0: once; less than 0: never"},
    {"enable_model_warmup", BOOLEAN, TFS, AT(enable_model_warmup), "true", NULL, ANY,
     "before a version is available, play the requests of its " SRV_WARMUP_FILE ", for ten minutes "
     "at most, or else it fails; where there is no such file, run each signature once, for 30 "
     "seconds at most, and two minutes in all"},
    {"num_request_iterations_for_warmup", INTEGER, TFS, AT(num_request_iterations_for_warmup), "0",
     NULL, ANY, "play each request of the warm-up file so many times; 0 or less: once"},
    {"saved_model_tags", TEXT, TFS, AT(saved_model_tags), "serve", NULL, ANY,
     "comma-separated tags that name the meta graph"},
    {"grpc_channel_arguments", TEXT, TFS, AT(grpc_channel_arguments), "", NULL, ANY,
     "comma-separated key=value for the gRPC server"},
    {"ssl_config_file", TEXT, TFS, AT(ssl_config_file), "", NULL, ANY,
     "text SSLConfig: the gRPC port speaks TLS with its key and certificate (PEM contents), and "
     "asks for the client's with client_verify; UNIX sockets stay plain"},
    {"use_alts_credentials", BOOLEAN, TFS, AT(use_alts_credentials), "false", NULL, ANY,
     "the gRPC port speaks Google's ALTS; refused where that is not to be had"},
    {"grpc_max_threads", INTEGER, TFS, AT(grpc_max_threads), "0", NULL, ANY,
     "at most so many gRPC network threads; calls hold no thread, so none is refused for want of "
     "one"},
    {"monitoring_config_file", TEXT, TFS, AT(monitoring_config_file), "", NULL, ANY,
     "text MonitoringConfig: path of the Prometheus page, or no page (enable: false); without the "
     "file it is at /monitoring/prometheus/metrics"},
    {"tensorflow_session_parallelism", INTEGER, TFS, AT(tensorflow_session_parallelism), "0", NULL,
     ANY,
     "sets num_workers and cores_per_run, where they are not given; 0: one per usable core"},
    {"tensorflow_intra_op_parallelism", INTEGER, TFS, AT(tensorflow_intra_op_parallelism), "0",
     NULL, ANY,
     "sets cores_per_run, where it is not given, and num_workers likewise: to the larger of this "
     "and tensorflow_inter_op_parallelism"},
    {"tensorflow_inter_op_parallelism", INTEGER, TFS, AT(tensorflow_inter_op_parallelism), "0",
     NULL, ANY, "see tensorflow_intra_op_parallelism; all three at once are refused"},
    {"tensorflow_session_config_file", TEXT, TFS, AT(tensorflow_session_config_file), "", NULL,
     ANY,
     "text tensorflow.ConfigProto: its numbers of threads count where no flag gives any, other "
     "fields are told in the log as without effect"},
    {"platform_config_file", TEXT, TFS, AT(platform_config_file), "", NULL, ANY,
     "text PlatformConfigMap: batching, threads, tags and warm-up of platform tensorflow, in place "
     "of their flags"},
    {"thread_pool_factory_config_file", TEXT, TFS, AT(thread_pool_factory_config_file), "", NULL,
     ANY,
     "text ThreadPoolFactoryConfig; one that names a factory is refused, as by a stock "
     "tensorflow_model_server"},
    {"enable_signature_method_name_check", BOOLEAN, TFS, AT(enable_signature_method_name_check),
     "false", NULL, ANY, "refuse a call whose signature has another method name"},
    {"enable_grpc_healthcheck_service", BOOLEAN, TFS, AT(enable_grpc_healthcheck_service), "false",
     "true", ANY, "serve grpc.health.v1"},
    {"enable_serialization_as_tensor_content", BOOLEAN, TFS,
     AT(enable_serialization_as_tensor_content), "false", NULL, ANY,
     "Predict answers in tensor_content instead of the typed fields"},
    {"version", BOOLEAN, TFS, SIZE_MAX, "false", NULL, ANY, "print the version and exit"},

    {"strict_flags", BOOLEAN, OURS, AT(strict_flags), "false", "true", ANY,
     "refuse an unknown argument instead of telling it and going on"},
    {"version_transition", TEXT, OURS, AT(version_transition), "availability_preserving", NULL, ANY,
     "availability_preserving: load the new version, then unload the old one; "
     "resource_preserving: unload first"},
    {"models", TEXT, OURS, AT(models), "", NULL, ANY,
     "directory whose sub-directories are models; they may come and go while the server runs. "
     "A model of the same name in model_config_file, a reload or model_name takes precedence"},
    {"admin_address", TEXT, OURS, AT(admin_address), "", NULL, ANY,
     "ADDRESS:PORT of a gRPC listener that alone takes admin actions (HandleReloadConfigRequest, "
     "load, unload); empty: the main ones take them"},
    {"admin_socket", TEXT, OURS, AT(admin_socket), "", NULL, ANY,
     "the same on a UNIX socket"},
    {"admin_token_file", TEXT, OURS, AT(admin_token_file), "", NULL, ANY,
     "admin actions want the metadata or header \"authorization: Bearer TOKEN\", with the token "
     "in this file; it is read at each of them"},
    {"model_root", TEXT, OURS, AT(model_root), "", NULL, ANY,
     "directory below which base paths of a reload must lie, symlinks followed; paths of flags "
     "and model_config_file need not"},
    {"enable_session_service", BOOLEAN, OURS, AT(enable_session_service), "false", NULL, ANY,
     "serve tensorflow.serving.SessionService, by which a client runs any node of a model"},
    {"enable_grpc_reflection", BOOLEAN, OURS, AT(enable_grpc_reflection), "true", NULL, ANY,
     "serve grpc.reflection.v1 and v1alpha, by which tools learn the services and messages"},
    {"bind_address", TEXT, OURS, AT(bind_address), "", "127.0.0.1", ANY,
     "address to listen on; empty: all"},
    {"max_body_bytes", BYTES, OURS, AT(max_body_bytes), "256M", NULL, 1024, INT64_C(1) << 40,
     "largest request body; REST inflates a compressed one to at most 100 MiB"},
    {"max_bytes_in_flight", BYTES, OURS, AT(max_bytes_in_flight), "1G", NULL, 1024,
     INT64_C(1) << 44, "what requests may hold at a time, in all: bodies, tensors, answers"},
    {"max_grpc_calls", INTEGER, OURS, AT(max_grpc_calls), "16384", NULL, 2, 1 << 24,
     "gRPC calls open at a time, some 16 KiB each; of these a connection may have as many as all "
     "leave free"},
    {"max_header_bytes", BYTES, OURS, AT(max_header_bytes), "16K", NULL, 1024, 16 << 20,
     "largest request header"},
    {"max_queue_jobs", INTEGER, OURS, AT(max_queue_jobs), "10000", NULL, 1, INT32_MAX,
     "requests queued per version; beyond it they are refused at once"},
    {"max_queue_bytes", BYTES, OURS, AT(max_queue_bytes), "512M", NULL, 1024, INT64_C(1) << 44,
     "bytes of requests queued per version"},
    {"max_waiting_runs", INTEGER, OURS, AT(max_waiting_runs), "256", NULL, 0, 65536,
     "runs that wait for other runs at a time, as a dequeue from an empty queue does; each holds a "
     "thread, but no worker"},
    {"system_shared_memory_bytes", BYTES, OURS, AT(system_shared_memory_bytes), "0", NULL, 0,
     INT64_C(1) << 44,
     "POSIX shared memory that clients of the Open Inference Protocol may register, in all; they "
     "may name any object that the server may open, so they must be trusted; 0: none"},
    {"quota_client", TEXT, OURS, AT(quota_client), "", NULL, ANY,
     "what names the client of an inference for its quota: tls, the common name in its "
     "certificate, or the lower-case name of a header or metadata key; clients without it share "
     "one quota; empty: no quotas"},
    {"quota_requests_per_second", FLOAT, OURS, AT(quota_requests_per_second), "0", NULL, ANY,
     "inferences of a client per second, with --quota_client; 0: no limit"},
    {"quota_bytes_per_second", BYTES, OURS, AT(quota_bytes_per_second), "0", NULL, 0,
     INT64_C(1) << 50,
     "bytes of a client's requests for inferences per second, with --quota_client; 0: no limit"},
    {"quota_max_clients", INTEGER, OURS, AT(quota_max_clients), "16384", NULL, 8, 1 << 24,
     "clients with a quota of their own at a time; others that have used up part of their quota "
     "meanwhile share one"},
    {"max_batch_rows", INTEGER, OURS, AT(max_batch_rows), "128", NULL, 1, SRV_MAX_BATCH_ROWS,
     "rows of a merged batch, unless enable_batching is true; 1: never merge"},
    {"inline_max_us", INTEGER, OURS, AT(inline_max_us), "40", NULL, 0, 1000000,
     "requests that cost less run on their network thread; 0: never"},
    {"num_workers", INTEGER, OURS, AT(num_workers), "0", NULL, 0, 1024,
     "batches that run at a time, each on a thread of its own, and beside them one of small "
     "requests while none of these threads takes another, and of any model that runs none when "
     "that lasts for a second; 0: one per usable core"},
    {"cores_per_run", INTEGER, OURS, AT(cores_per_run), "0", NULL, 0, 1024,
     "cores that one large batch may use while others leave them idle; 1: its own thread's alone; "
     "0: as many as num_workers"},
    {"num_rest_threads", INTEGER, OURS, AT(num_rest_threads), "0", NULL, 0, 60,
     "REST network threads; 0: one per four cores"},
    {"num_grpc_threads", INTEGER, OURS, AT(num_grpc_threads), "0", NULL, 0, 60,
     "gRPC network threads; 0: one per four cores"},
    {"max_connections", INTEGER, OURS, AT(max_connections), "10000", NULL, 1, 1 << 20,
     "REST connections open at a time"},
    {"request_read_timeout_ms", INTEGER, OURS, AT(request_read_timeout_ms), "60000", NULL, 1,
     INT32_MAX,
     "time for a whole request to arrive, and for 64 KiB of a large answer to be taken, by REST "
     "and gRPC; who takes longer is cut off"},
    {"rest_tls_cert_file", TEXT, OURS, AT(rest_tls_cert_file), "", NULL, ANY,
     "serve REST by TLS with this certificate (PEM, with those that it is signed by behind it)"},
    {"rest_tls_key_file", TEXT, OURS, AT(rest_tls_key_file), "", NULL, ANY,
     "the certificate's key (PEM)"},
    {"rest_tls_client_ca_file", TEXT, OURS, AT(rest_tls_client_ca_file), "", NULL, ANY,
     "REST clients must show a certificate signed by one of these (PEM)"},
    {"rest_api_enable_compression", BOOLEAN, OURS, AT(rest_api_enable_compression), "true", NULL,
     ANY, "compress REST answers of 1 KiB and more for clients that accept gzip"},
    {"default_deadline_seconds", SECONDS, OURS, AT(default_deadline_ms), "600", NULL, 0, INT32_MAX,
     "deadline of a request that brings none; it then ends with DEADLINE_EXCEEDED. Requests of a "
     "version that is unloaded end after this time too, whatever their deadline; 0: none"},
    {"drain_timeout", SECONDS, OURS, AT(drain_timeout_ms), "20", NULL, 0, 86400000,
     "after SIGTERM: seconds for requests in flight to end; then they are refused"},
    {"drain_delay_ms", INTEGER, OURS, AT(drain_delay_ms), "-1", NULL, -1, 600000,
     "after SIGTERM: not ready, but still accepting, for so long; -1: 5000 as process 1, else 0"},
    {"model_wait_seconds", INTEGER, OURS, AT(model_wait_seconds), "300", "5", 0, INT32_MAX,
     "how long a model that is configured at the start, serves no version yet and has not failed "
     "keeps the server from being ready; from then on it is ready if any model serves, or none is "
     "configured; 0: no limit. As tensorflow_model_server: how long such a model, unless it is "
     "being loaded, keeps the ports closed; then the start fails"},
    {"total_model_memory_limit_bytes", BYTES, OURS, AT(total_model_memory_limit_bytes), "0", NULL,
     SIZE,
     "memory that all models may hold (graphs, plans, weights, variables and tables); a model "
     "counts as its checkpoint, a quarter more and 8 MiB, or as what it holds if that is more; a "
     "version that does not fit, or is found not to fit while it is loaded, is refused, one that "
     "waits for an unload is not; 0: what the machine has"},
    {"run_memory_limit_bytes", BYTES, OURS, AT(run_memory_limit_bytes), "4G", NULL, SIZE,
     "memory that one run may hold, and bytes that one SaveV2 may write more than once; 0: no "
     "limit"},
    {"run_memory_total_bytes", BYTES, OURS, AT(run_memory_total_bytes), "0", NULL, SIZE,
     "memory that all runs together may hold; 0: half of what the machine has free at the start"},
    {"run_memory_idle_bytes", BYTES, OURS, AT(run_memory_idle_bytes), "256M", NULL, SIZE,
     "memory that runs may leave for the next ones of their model, of all models together; those "
     "in use have it before others; 0, or less than one run of a model needs: every run asks the "
     "system for all it needs, which may take a third longer"},
    {"state_memory_limit_bytes", BYTES, OURS, AT(state_memory_limit_bytes), "1G", NULL, SIZE,
     "memory, strings included, that requests may leave in the variables and tables of a version, "
     "beyond what these held when it was loaded; an assignment or insertion that exceeds it is "
     "refused; 0: no limit"},
    {"num_model_warmup_threads", INTEGER, OURS, AT(num_model_warmup_threads), "1", NULL, 1,
     SRV_MAX_WARMUP_THREADS, "requests of a warm-up file that are played at once"},
    {"request_log_file_bytes", BYTES, OURS, AT(request_log_file_bytes), "256M", NULL, 1, INT64_MAX,
     "a file of a model's request log (logging_config) that has so much is followed by another"},
    {"request_log_file_seconds", SECONDS, OURS, AT(request_log_file_ms), "3600", NULL, 1, INT32_MAX,
     "the same of one that is so old"},
    {"golden_tolerance", FLOAT, OURS, AT(golden_tolerance), "1e-4", NULL, ANY,
     "how far a version's answers may be from those in its " SRV_GOLDEN_FILE ", as a part of the "
     "largest magnitude in an output, where it has no " SRV_GOLDEN_TOLERANCE_FILE},
    {"allow_unsupported_signatures", BOOLEAN, OURS, AT(allow_unsupported_signatures), "false", NULL,
     ANY, "serve a model without those of its signatures that could not run"},
    {"fusion", SWITCH, OURS, AT(fusion), "on", NULL, ANY,
     "do at once what one kernel does better than several nodes: steps behind products and "
     "convolutions, padding, norms, attention, LSTM and GRU loops, chains of element-wise steps; "
     "off: node by node as the graph has them"},
    {"specialise", SWITCH, OURS, AT(specialise), "on", NULL, ANY,
     "compile plans for the shapes of the warm-up and for those that recur, beside the requests; "
     "off: every request runs node by node"},
    {"winograd", SWITCH, OURS, AT(winograd), "on", NULL, ANY,
     "3x3, 1xN and Nx1 convolutions by tiles: faster, rounds differently, weights take up to four "
     "times the memory"},
    {"precision", TEXT, OURS, AT(precision), "float32", NULL, ANY,
     "float32, or bf16: where the processor multiplies bfloat16, constant matrices and filters of "
     "float32 models are kept and multiplied in it, elsewhere only matrices of more than 8 "
     "million weights are kept in it; sums and results stay float32"},
    {"gpus", TEXT, OURS, AT(gpus), "none", NULL, ANY,
     "GPUs that run the ops which have kernels for GPUs: none; auto: all that can be used, if any; "
     "all: likewise, but one is needed; or a list of numbers or UUIDs, such as 0,2"},
    {"gpu_slots", INTEGER, OURS, AT(gpu_slots), "2", NULL, 1, RT_MAX_STREAMS,
     "batches that may be on a GPU at a time; each has memory of its own for its activations"},
    {"per_process_gpu_memory_fraction", FLOAT, TFS, AT(gpu_memory_fraction), "0.0", NULL, ANY,
     "the part of each GPU's memory that may be used, at most 1; 0: all. Memory is never taken "
     "ahead of its use"},
    {"gpu_pinned_bytes", BYTES, OURS, AT(gpu_pinned_bytes), "256M", NULL, 0, INT64_C(1) << 44,
     "page-locked memory of the host for the large tensors of requests, which GPUs copy faster; "
     "freed memory is kept for later requests; 0: none"},
    {"gpu_precision", TEXT, OURS, AT(gpu_precision), "tf32", NULL, ANY,
     "how GPUs multiply and convolve float32 tensors: tf32: with inputs rounded to 11 significant "
     "bits, as TensorFlow does, where the GPU has TF32; float32: without that rounding"},
    {"gpu_on_fault", TEXT, OURS, AT(gpu_on_fault), "exit", NULL, ANY,
     "what to do when a GPU fails: exit: be not ready, answer what can be answered, and end the "
     "process with status 70, so that it is started anew; stop: go on, with its models on the "
     "processor"},
    {"gpu_hang_seconds", SECONDS, OURS, AT(gpu_hang_ms), "60", NULL, 0, INT32_MAX,
     "a GPU has failed when a batch runs on it for so long, and for 20 times as long as the "
     "longest before; 0: never"},
    {"autotune", SWITCH, OURS, AT(autotune), "on", NULL, ANY,
     "time kernels that could do the same while a version is loaded, and take the fastest; off: by "
     "a rule, so that replicas round alike"},
    {"autotune_cache", TEXT, OURS, AT(autotune_cache), "", NULL, ANY,
     "a file in which what timing found is kept; servers may share it"},
    {"log_device_placement", BOOLEAN, OURS, AT(log_device_placement), "false", NULL, ANY,
     "log where each node runs"},
    {"access_log", BOOLEAN, OURS, AT(access_log), "false", NULL, ANY, "one line per request"},
    {"otlp_endpoint", TEXT, OURS, AT(otlp_endpoint), "", NULL, ANY,
     "http:// or https:// URL of an OpenTelemetry collector, to which traces are exported by OTLP "
     "over HTTP with protobuf; /v1/traces is appended unless the URL ends with it; empty: none. "
     "The default is $OTEL_EXPORTER_OTLP_ENDPOINT"},
    {"otlp_headers", TEXT, OURS, AT(otlp_headers), "", NULL, ANY,
     "comma-separated key=value: HTTP headers for the collector. The default is "
     "$OTEL_EXPORTER_OTLP_HEADERS, which other users do not see"},
    {"otlp_certificate", TEXT, OURS, AT(otlp_certificate), "", NULL, ANY,
     "PEM file of the CA certificates that an https:// collector is verified with, instead of the "
     "system's. The default is $OTEL_EXPORTER_OTLP_CERTIFICATE"},
    {"otlp_timeout_seconds", SECONDS, OURS, AT(otlp_timeout_ms), "10", NULL, 1, INT32_MAX,
     "time limit of a request to the collector"},
    {"otlp_interval_seconds", SECONDS, OURS, AT(otlp_interval_ms), "5", NULL, 1, INT32_MAX,
     "traces are exported at least this often"},
    {"otlp_queue_length", INTEGER, OURS, AT(otlp_queue_length), "2048", NULL, 1,
     SRV_MAX_OTLP_QUEUE,
     "requests and batches that wait for export, some 4 KiB each; beyond it they are dropped and "
     "counted"},
    {"otlp_service_name", TEXT, OURS, AT(otlp_service_name), "", NULL, ANY,
     "the attribute service.name of exported traces; empty: slipway. The default is "
     "$OTEL_SERVICE_NAME"},
    {"otlp_resource_attributes", TEXT, OURS, AT(otlp_resource_attributes), "", NULL, ANY,
     "comma-separated key=value: further attributes of this server in exported traces. The default "
     "is $OTEL_RESOURCE_ATTRIBUTES"},
    {"trace_sampling_ratio", FLOAT, OURS, AT(trace_sampling_ratio), "1", NULL, ANY,
     "the part of the traces that is exported, from 0 to 1"},
    {"trace_sampling_by_parent", BOOLEAN, OURS, AT(trace_sampling_by_parent), "true", NULL, ANY,
     "a request with a traceparent is exported if the client says that the trace is, and the ratio "
     "counts only for others"},
    {"log_format", TEXT, OURS, AT(log_format), "text", NULL, ANY, "text or json"},
    {"log_level", INTEGER, OURS, AT(log_level), "2", NULL, 0, 3,
     "0 errors, 1 warnings, 2 information, 3 debug"},

    {"flush_filesystem_caches", BOOLEAN, TFS_IGNORED, 0, "true", NULL, ANY,
     "weights are read once; what the kernel keeps of their files it gives up by itself"},
    {"remove_unused_fields_from_bundle_metagraph", BOOLEAN, TFS_IGNORED, 0, "true", NULL, ANY,
     "of a meta graph only what is served is ever kept"},
    {"prefer_tflite_model", BOOLEAN, TFS_IGNORED, 0, "false", NULL, ANY,
     "TensorFlow Lite models are not run, the version's SavedModel is"},
    {"num_tflite_pools", INTEGER, TFS_IGNORED, 0, "0", NULL, ANY,
     "there are no TensorFlow Lite interpreters"},
    {"num_tflite_interpreters_per_pool", INTEGER, TFS_IGNORED, 0, "1", NULL, ANY,
     "there are no TensorFlow Lite interpreters"},
    {"xla_cpu_compilation_enabled", BOOLEAN, TFS_IGNORED, 0, "false", NULL, ANY,
     "there is no XLA: plans are compiled by the server's own means, see specialise and fusion"},
    {"xla_gpu_compilation_enabled", BOOLEAN, TFS_IGNORED, 0, "false", NULL, ANY,
     "there is no XLA: plans are compiled by the server's own means, see specialise and fusion"},
    {"enable_profiler", BOOLEAN, TFS_IGNORED, 0, "true", NULL, ANY,
     "there is no ProfilerService; the metrics page has times per model and version"},
    {"mixed_precision", TEXT, TFS_IGNORED, 0, "", NULL, ANY,
     "models are computed in the types that they name; see precision for bfloat16"},
    {"skip_initialize_tpu", BOOLEAN, TFS_IGNORED, 0, "false", NULL, ANY, "there are no TPUs"},
};
/* clang-format on */

enum { N_ROWS = sizeof rows / sizeof rows[0] };
enum { MAX_EDITS = 2 }; /* in the name of a flag, for a hint to the flag that was meant */

static const char *default_of(const struct row *row, bool as_tensorflow)
{
    return as_tensorflow || !row->own ? row->as_tensorflow : row->own;
}

static bool is_boolean(const struct row *row)
{
    return row->kind == BOOLEAN || row->kind == MAYBE;
}

static bool has_field(const struct row *row)
{
    return (row->meaning == OURS || row->meaning == TFS) && row->offset != SIZE_MAX;
}

static bool parse_bytes(const char *text, int64_t *out)
{
    size_t n = strlen(text);
    int shift = 0;
    if (n > 1 && strchr("KMG", text[n - 1]))
        shift = text[--n] == 'K' ? 10 : text[n] == 'M' ? 20 : 30;
    int64_t v;
    if (!srv_parse_int64(text, n, &v) || v > INT64_MAX >> shift || v < INT64_MIN >> shift)
        return false;
    *out = v * (INT64_C(1) << shift);
    return true;
}

static bool looks_like_float(const char *text)
{
    return *text && strspn(text, "+-0123456789.eE") == strlen(text);
}

/* Stores the value of a flag in the options. `text` is NULL if the flag has no value, which only
 * booleans permit. Returns false if the text does not match the flag's kind and range. */
static bool set_value(struct srv_options *o, const struct row *row, const char *text)
{
    char *field = (char *)o + (has_field(row) ? row->offset : 0);
    if (!text && !is_boolean(row))
        return false;
    int64_t number = 0;
    bool flag = !text;
    switch (row->kind) {
    case BOOLEAN:
        if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return false;
        flag = !text || strcmp(text, "true") == 0;
        if (has_field(row))
            memcpy(field, &flag, sizeof flag);
        return true;
    case SWITCH:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
            return false;
        flag = strcmp(text, "on") == 0;
        memcpy(field, &flag, sizeof flag);
        return true;
    case MAYBE: {
        enum srv_maybe said = !text || strcmp(text, "true") == 0 ? SRV_YES
                              : strcmp(text, "false") == 0       ? SRV_NO
                                                                 : SRV_UNSAID;
        if (said == SRV_UNSAID && *text)
            return false;
        memcpy(field, &said, sizeof said);
        return true;
    }
    case TEXT:
        if (has_field(row))
            memcpy(field, &text, sizeof text);
        return true;
    case FLOAT: {
        double real = 0;
        const unsigned char *end = (const unsigned char *)text + strlen(text);
        if (!looks_like_float(text))
            return false;
        if (!has_field(row))
            return true;
        if (srv_double_read((const unsigned char *)text, end, &real) != end || real < 0)
            return false;
        memcpy(field, &real, sizeof real);
        return true;
    }
    case INTEGER:
        /* TensorFlow Serving's scanf skips leading white space before an integer. */
        text += strspn(text, " \t\n\v\f\r");
        if (!srv_parse_int64(text, strlen(text), &number))
            return false;
        break;
    case BYTES:
        if (!parse_bytes(text, &number))
            return false;
        break;
    case SECONDS:
        if (!srv_parse_seconds(text, &number))
            return false;
        break;
    }
    if (number < row->min || number > row->max)
        return false;
    if (has_field(row))
        memcpy(field, &number, sizeof number);
    return true;
}

static const char *kind_name(enum kind kind)
{
    static const char *const names[] = {"bool",  "on|off",  "bool",   "int",
                                        "bytes", "seconds", "string", "float"};
    return names[kind];
}

static const char *const titles[] = {"Of Slipway", "Of TensorFlow Serving",
                                     "Of TensorFlow Serving, accepted and without effect"};

void srv_options_help(FILE *out, bool as_tensorflow)
{
    fprintf(out,
            "usage: %s\nFlags: (--name=value%s; a boolean: --name, --name=true, --name=false)\n",
            as_tensorflow ? "tensorflow_model_server" : "slipway serve",
            as_tensorflow ? "" : " or --name value");
    for (int pass = 0; pass < 3; pass++) {
        /* the flags of TensorFlow Serving come first */
        enum meaning meaning = pass == 0 ? TFS : pass == 1 ? OURS : (enum meaning)pass;
        fprintf(out, "%s:\n", titles[meaning]);
        for (const struct row *r = rows; r < rows + N_ROWS; r++) {
            if (r->meaning != meaning)
                continue;
            char name[96];
            const char *def = default_of(r, as_tensorflow);
            snprintf(name, sizeof name, r->kind == TEXT ? "--%s=\"%s\"" : "--%s=%s", r->name, def);
            fprintf(out, "\t%-33s\t%s\t%s\n", name, kind_name(r->kind), r->help);
        }
    }
}

void srv_options_markdown(FILE *out)
{
    fprintf(
        out,
        "# Flags of `slipway serve`\n\nMade by `slipway serve --help=markdown`. In brackets: the "
        "default when called as `tensorflow_model_server`.\n");
    for (enum meaning meaning = OURS; meaning <= TFS_IGNORED; meaning++) {
        fprintf(out, "\n## %s\n\n| flag | default | meaning |\n|---|---|---|\n", titles[meaning]);
        for (const struct row *r = rows; r < rows + N_ROWS; r++) {
            const char *own = default_of(r, false), *theirs = default_of(r, true);
            if (r->meaning != meaning)
                continue;
            fprintf(out, "| `--%s` | %s", r->name, own);
            if (strcmp(own, theirs) != 0)
                fprintf(out, " (%s)", *theirs ? theirs : "empty");
            fprintf(out, " | %s |\n", r->help);
        }
    }
}

static const struct row *find_row(const char *name, size_t n)
{
    for (const struct row *r = rows; r < rows + N_ROWS; r++)
        if (strlen(r->name) == n && memcmp(r->name, name, n) == 0)
            return r;
    return NULL;
}

/* Prints the flag whose name is nearest to that of the unknown argument, if it is near enough to be
 * a typing error and no other flag is as near. A name of up to two bytes has no near flag. */
static void print_near_flag(FILE *out, const char *arg)
{
    const size_t dashes = strspn(arg, "-");
    const size_t n = strcspn(arg + dashes, "=");
    const struct row *nearest = NULL;
    int least = MAX_EDITS + 1;

    if (n <= MAX_EDITS)
        return;
    for (const struct row *r = rows; r < rows + N_ROWS; r++) {
        const int distance = srv_edit_distance(arg + dashes, n, r->name);
        if (distance <= least)
            nearest = distance < least ? r : NULL;
        if (distance < least)
            least = distance;
    }
    if (nearest && dashes)
        fprintf(out, "did you mean --%s?\n", nearest->name);
}

static void print_version(FILE *out)
{
    fprintf(out, "TensorFlow ModelServer: slipway-%s\nTensorFlow Library: none, slipway-%s\n",
            SLIPWAY_VERSION, SLIPWAY_VERSION);
}

/* Prints the usage. tensorflow_model_server prints all flags. `slipway serve` prints only one line,
 * so that the error message before it stays visible. */
static void print_usage(FILE *out, bool as_tensorflow)
{
    if (as_tensorflow)
        srv_options_help(out, true);
    else
        fprintf(out, "slipway serve --help lists the flags and what they take\n");
}

static void print_bad_value(FILE *out, const char *value, const char *name)
{
    fprintf(out, "Couldn't interpret value %s for flag %s.\n", value, name);
}

/* Prints the permitted range of a numeric flag, in the unit in which its value is given. */
static void print_range(FILE *out, const struct row *row)
{
    const double unit = row->kind == SECONDS ? 1000 : 1;

    if (row->min != INT64_MIN)
        fprintf(out, row->max == INT64_MAX ? " of at least %.15g" : " from %.15g",
                (double)row->min / unit);
    if (row->max != INT64_MAX)
        fprintf(out, row->min == INT64_MIN ? " of at most %.15g" : " to %.15g",
                (double)row->max / unit);
    fprintf(out, "\n");
}

static void print_accepted_values(FILE *out, const struct row *row)
{
    static const char *const takes[] = {
        [BOOLEAN] = "true or false",
        [SWITCH] = "on or off",
        [MAYBE] = "true or false",
        [INTEGER] = "a whole number",
        [BYTES] = "a number of bytes, as 4096, 16K, 8M or 1G,",
        [SECONDS] = "a number of seconds",
        [TEXT] = "a text",
        [FLOAT] = "a number of at least 0",
    };
    fprintf(out, "--%s takes %s", row->name, takes[row->kind]);
    if (row->kind == INTEGER || row->kind == BYTES || row->kind == SECONDS)
        print_range(out, row);
    else
        fprintf(out, "\n");
}

static bool is_default(const struct row *row, const char *text, bool as_tensorflow)
{
    return strcmp(text, default_of(row, as_tensorflow)) == 0;
}

enum taken { TAKEN, NO_FLAG, BAD };

/* Stores the value of a flag, or reports the error. `text` is NULL if the flag has no value. */
static enum taken take_value(struct srv_options *o, const struct row *row, const char *text,
                             FILE *out)
{
    if (!set_value(o, row, text)) {
        /* tensorflow_model_server prints a "=" before the invalid value of a boolean */
        bool equals = o->as_tensorflow && is_boolean(row);
        char shown[512];
        snprintf(shown, sizeof shown, "%s%s", equals ? "=" : "", text ? text : "(none)");
        print_bad_value(out, shown, row->name);
        if (!o->as_tensorflow)
            print_accepted_values(out, row);
        return BAD;
    }
    o->given[row - rows] = text ? text : "true";
    return TAKEN;
}

/* Finds a boolean flag whose name is a prefix of the argument. tensorflow_model_server then reports
 * the rest of the argument as an invalid value. It does not report an unknown flag. */
static const struct row *boolean_before(const char *arg)
{
    for (const struct row *r = rows; r < rows + N_ROWS; r++)
        if (is_boolean(r) && r->meaning != OURS && strncmp(arg + 2, r->name, strlen(r->name)) == 0)
            return r;
    return NULL;
}

static enum taken take_theirs(struct srv_options *o, const char *arg, FILE *out)
{
    if (strncmp(arg, "--", 2) != 0)
        return NO_FLAG;
    const char *equals = strchr(arg, '=');
    const struct row *row =
        find_row(arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2));
    if (row && (equals || is_boolean(row)))
        return take_value(o, row, equals ? equals + 1 : NULL, out);
    row = row ? NULL : boolean_before(arg);
    if (!row)
        return NO_FLAG;
    print_bad_value(out, arg + 2 + strlen(row->name), row->name);
    return BAD;
}

static enum srv_parse parse_theirs(struct srv_options *o, int argc, const char *const *argv,
                                   FILE *out)
{
    const char *left_over = NULL;
    bool bad = false, rest = false;
    for (int i = 1; i < argc; i++) {
        rest = rest || strcmp(argv[i], "--") == 0;
        enum taken t = rest ? NO_FLAG : take_theirs(o, argv[i], out);
        bad = bad || t == BAD;
        if (t == NO_FLAG && !left_over)
            left_over = argv[i];
    }
    if (bad || (left_over && strcmp(left_over, "--help") == 0)) {
        srv_options_help(out, true);
        return SRV_PARSE_EXIT_USAGE;
    }
    if (left_over) {
        fprintf(out, "unknown argument: %s\n", left_over);
        srv_options_help(out, true);
    }
    return left_over && o->strict_flags ? SRV_PARSE_EXIT_USAGE : SRV_PARSE_RUN;
}

static enum srv_parse parse_own(struct srv_options *o, int argc, const char *const *argv, FILE *out)
{
    const char *unknown = NULL;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            srv_options_help(out, false);
            return SRV_PARSE_EXIT_0;
        }
        if (strcmp(arg, "--help=markdown") == 0) {
            srv_options_markdown(out);
            return SRV_PARSE_EXIT_0;
        }
        if (strcmp(arg, "--") == 0 && i + 1 == argc)
            break;
        const struct row *row =
            strncmp(arg, "--", 2) == 0
                ? find_row(arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2))
                : NULL;
        if (!row) {
            unknown = unknown ? unknown : arg;
            continue;
        }
        const char *text = equals ? equals + 1 : NULL;
        if (!text && !is_boolean(row) && i + 1 < argc)
            text = argv[++i];
        if (take_value(o, row, text, out) == BAD) {
            print_usage(out, false);
            return SRV_PARSE_EXIT_USAGE;
        }
    }
    if (!unknown)
        return SRV_PARSE_RUN;
    fprintf(out,
            "unknown argument: %s: only flags are taken, and slipway serve --help lists them\n",
            unknown);
    print_near_flag(out, unknown);
    return o->strict_flags ? SRV_PARSE_EXIT_USAGE : SRV_PARSE_RUN;
}

/* Checks the flags that accept only one of two words. */
static bool check_words(const struct srv_options *o, FILE *out)
{
    const struct {
        const char *name, *value, *a, *b;
    } words[] = {
        {"log_format", o->log_format, "text", "json"},
        {"precision", o->precision, "float32", "bf16"},
        {"gpu_precision", o->gpu_precision, "tf32", "float32"},
        {"gpu_on_fault", o->gpu_on_fault, "exit", "stop"},
        {"version_transition", o->version_transition, "availability_preserving",
         "resource_preserving"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].value, words[i].a) != 0 && strcmp(words[i].value, words[i].b) != 0) {
            print_bad_value(out, words[i].value, words[i].name);
            if (!o->as_tensorflow)
                fprintf(out, "--%s takes %s or %s\n", words[i].name, words[i].a, words[i].b);
            return false;
        }
    return true;
}

enum srv_parse srv_options_parse(struct srv_options *o, bool as_tensorflow, int argc,
                                 const char *const *argv, FILE *out)
{
    _Static_assert((int)N_ROWS <= (int)SRV_MAX_FLAGS, "given[] has a place for each flag");
    memset(o, 0, sizeof *o);
    o->as_tensorflow = as_tensorflow;
    for (const struct row *r = rows; r < rows + N_ROWS; r++)
        if (has_field(r))
            set_value(o, r, default_of(r, as_tensorflow));
    enum srv_parse parsed =
        as_tensorflow ? parse_theirs(o, argc, argv, out) : parse_own(o, argc, argv, out);
    if (parsed != SRV_PARSE_RUN)
        return parsed;
    const char *version = o->given[find_row("version", 7) - rows];
    if (version && strcmp(version, "true") == 0) {
        print_version(out);
        return SRV_PARSE_EXIT_0;
    }
    if (!check_words(o, out)) {
        print_usage(out, as_tensorflow);
        return SRV_PARSE_EXIT_USAGE;
    }
    return SRV_PARSE_RUN;
}

bool srv_options_is_given(const struct srv_options *o, const char *name)
{
    const struct row *row = find_row(name, strlen(name));
    return row && o->given[row - rows];
}

bool srv_options_next_note(const struct srv_options *o, int *i, const char **name,
                           const char **reason)
{
    for (; *i < N_ROWS; ++*i) {
        const struct row *row = &rows[*i];
        const char *text = o->given[*i];
        if (row->meaning != TFS_IGNORED || !text || is_default(row, text, o->as_tensorflow))
            continue;
        *name = row->name;
        *reason = row->help;
        ++*i;
        return true;
    }
    return false;
}

/*
 * Exports records of requests and batches to an OpenTelemetry collector, by OTLP over HTTP with
 * protobuf. A queue of limited length holds the records until the exporter's thread sends them.
 * Records that do not fit are dropped and counted, so that no request ever waits for the collector.
 *
 * A request to the collector has a time limit. If the collector cannot be reached, does not answer
 * in time, or answers with 429, 502, 503 or 504, the thread tries again with growing pauses, and
 * finally drops the records. After any other error it drops them at once.
 *
 * Threads: srv_exporter_add may be called on any thread.
 */
#ifndef SRV_EXPORTER_H
#define SRV_EXPORTER_H

#include "runtime/base/status.h"
#include "server/tracing/otlp.h"

struct srv_exporter;

/* All strings must outlive the exporter. */
struct srv_exporter_options {
    /* http://HOST:PORT/PATH or https://HOST:PORT/PATH, with the path to which requests are sent */
    const char *url;
    const char *endpoint; /* the value of --otlp_endpoint from which `url` is made, for errors */
    const char *headers;  /* further headers as key=value,key=value with percent-encoded values */
    /* PEM file of the CA certificates with which the collector is verified, or "" for the system's.
     * The file is read once. */
    const char *ca_file;
    /* PEM files of the certificate that identifies the server to the collector, and of its key, or
     * "" for none. They are read once. */
    const char *cert_file, *key_file;
    struct srv_otlp_resource resource;
    int64_t timeout_ns, interval_ns;
    int queue_length; /* maximum number of records in the queue */
};

/* Checks the options as srv_exporter_start does, without a connection to the collector. */
enum rt_status srv_exporter_check(const struct srv_exporter_options *o, struct rt_error *err);
/* Checks the options, and starts the thread. */
enum rt_status srv_exporter_start(const struct srv_exporter_options *o, struct srv_exporter **out,
                                  struct rt_error *err);
/* Sends the queued records, for a limited time, and stops the thread. NULL is fine. If the thread
 * is still looking up the collector's name afterwards, which cannot be cancelled, the thread and
 * the exporter's memory are left behind. */
void srv_exporter_stop(struct srv_exporter *e);

/* Queues a record, which must be allocated by malloc. Takes ownership of it, or frees it if the
 * queue is full. */
void srv_exporter_add(struct srv_exporter *e, struct srv_trace_record *r);

/* Counts a record that could not be made, because memory ran out. */
void srv_exporter_lost(struct srv_exporter *e);

/* Numbers of spans since the exporter started. */
struct srv_exporter_counts {
    uint64_t exported;   /* spans that the collector has accepted */
    uint64_t queue_full; /* spans that were dropped because the queue was full or memory ran out */
    uint64_t failed;     /* spans that were dropped because the collector did not accept them */
    uint64_t rejected;   /* spans that the collector has received and reported as rejected */
};
void srv_exporter_count(const struct srv_exporter *e, struct srv_exporter_counts *out);

#endif

#!/usr/bin/env python3
"""Prints the contents of docker/grafana-dashboard.json. Usage: make_dashboard.py > grafana-dashboard.json

Unlike in Grafana's own export, each panel is on one line, so that a diff shows which panels changed."""
import json

BY = 'model=~"$model"'
RATE = "[$__rate_interval]"


def quantile(q, metric, by, labels):
    return f"histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{{{labels}}}{RATE})))"


# A string is the title of a row of panels, and a tuple (title, unit, [(expression, legend), ...]) describes a panel.
PANELS = [
    "Traffic",
    ("Requests by model", "reqps",
     [(f"sum by (model, api) (rate(slipway_requests_total{{{BY}}}{RATE}))", "{{model}} {{api}}")]),
    ("Requests not answered OK", "reqps",
     [(f'sum by (model, code) (rate(slipway_requests_total{{{BY},code!="OK"}}{RATE}))',
       "{{model}} {{code}}")]),
    ("Latency", "s",
     [(quantile(q, "slipway_request_duration_seconds", "model", BY), f"{{{{model}}}} p{p}")
      for q, p in ((0.5, 50), (0.99, 99))]),
    ("Requests in flight", "short",
     [("sum by (entrypoint) (slipway_requests_in_flight)", "{{entrypoint}}")]),
    "Batching",
    ("Waiting for a worker", "s",
     [(quantile(q, "slipway_queue_duration_seconds", "model", BY), f"{{{{model}}}} p{p}")
      for q, p in ((0.5, 50), (0.99, 99))]),
    ("Time of a run", "s",
     [(quantile(q, "slipway_run_duration_seconds", "model", BY), f"{{{{model}}}} p{p}")
      for q, p in ((0.5, 50), (0.99, 99))]),
    ("Rows of a batch, mean", "short",
     [(f"sum by (model) (rate(slipway_batch_rows_sum{{{BY}}}{RATE}))"
       f" / sum by (model) (rate(slipway_batch_rows_count{{{BY}}}{RATE}))", "{{model}}")]),
    ("Queue", "short",
     [(f"sum by (model, version) (slipway_queue_requests{{{BY}}})", "{{model}} {{version}}")]),
    "Models",
    ("States of versions", "short",
     [(f"count by (model, state) (slipway_model_state{{{BY}}})", "{{model}} {{state}}")]),
    ("Loads", "short",
     [(f"sum by (model, result) (increase(slipway_model_loads_total{{{BY}}}{RATE}))",
       "{{model}} {{result}}")]),
    ("Time of a load, mean", "s",
     [(f"sum by (model) (rate(slipway_model_load_duration_seconds_sum{{{BY}}}{RATE}))"
       f" / sum by (model) (rate(slipway_model_load_duration_seconds_count{{{BY}}}{RATE}))",
       "{{model}}")]),
    ("Weights", "bytes",
     [(f"sum by (model, version) (slipway_model_weight_bytes{{{BY}}})", "{{model}} {{version}}")]),
    "GPUs",
    ("GPU memory of this process", "bytes",
     [("sum by (instance, gpu, use) (slipway_gpu_memory_bytes)", "{{instance}} GPU {{gpu}} {{use}}"),
      ('slipway_gpu_device_memory_bytes{state="total"}', "{{instance}} GPU {{gpu}} in all")]),
    ("GPU utilisation", "percentunit",
     [("slipway_gpu_utilisation_ratio", "{{instance}} GPU {{gpu}}")]),
    ("Streams in use", "short",
     [(f"rate(slipway_gpu_busy_seconds_total{RATE})", "{{instance}} GPU {{gpu}}"),
      (f"rate(slipway_gpu_wait_seconds_total{RATE})", "{{instance}} GPU {{gpu}} waiting")]),
    ("GPU temperature", "celsius",
     [("slipway_gpu_temperature_celsius", "{{instance}} GPU {{gpu}}")]),
    ("Copied", "Bps",
     [(f"rate(slipway_gpu_copied_bytes_total{RATE})", "{{instance}} GPU {{gpu}} {{direction}}")]),
    ("GPU memory of models", "bytes",
     [(f"sum by (model, version) (slipway_model_gpu_bytes{{{BY}}})", "{{model}} {{version}}")]),
    ("GPUs that work", "short", [("slipway_gpu_up", "{{instance}} GPU {{gpu}}")]),
    "Process",
    ("Resident memory", "bytes", [("process_resident_memory_bytes", "{{instance}}")]),
    ("Processors used", "short", [(f"rate(process_cpu_seconds_total{RATE})", "{{instance}}")]),
    ("Ready", "short", [("slipway_ready", "{{instance}}"),
                        ("slipway_versions_loaded", "{{instance}} versions")]),
    ("Rare events", "short",
     [(f"sum by (event) (increase(slipway_events_total{RATE}))", "{{event}}")]),
    "TensorFlow Serving's names",
    ("request_count", "reqps",
     [(f'sum by (model_name, status) (rate(:tensorflow:serving:request_count'
       f'{{model_name=~"$model"}}{RATE}))', "{{model_name}} {{status}}")]),
    ("request_latency p99", "µs",
     [(quantile(0.99, ":tensorflow:serving:request_latency", "model_name, entrypoint",
                'model_name=~"$model"'), "{{model_name}} {{entrypoint}}")]),
    ("runtime_latency p99", "µs",
     [(quantile(0.99, ":tensorflow:serving:runtime_latency", "model_name",
                'model_name=~"$model"'), "{{model_name}}")]),
    ("Graph runs", "ops", [(f"rate(:tensorflow:core:graph_runs{RATE})", "{{instance}}")]),
]


def panels():
    y, x, ident = 0, 0, 0
    for p in PANELS:
        ident += 1
        if isinstance(p, str):
            y, x = y + (8 if x else 0), 0
            yield {"id": ident, "type": "row", "title": p, "collapsed": False, "panels": [],
                   "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}}
            y += 1
            continue
        title, unit, queries = p
        yield {"id": ident, "type": "timeseries", "title": title,
               "datasource": {"type": "prometheus", "uid": "${datasource}"},
               "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
               "gridPos": {"h": 8, "w": 6, "x": x, "y": y},
               "targets": [{"refId": "ABCD"[i], "expr": e, "legendFormat": legend}
                           for i, (e, legend) in enumerate(queries)]}
        x += 6
        if x == 24:
            y, x = y + 8, 0


def main():
    board = {
        "title": "Slipway", "uid": "slipway", "schemaVersion": 36, "version": 1,
        "editable": True, "refresh": "10s", "tags": ["slipway"], "timezone": "",
        "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": []},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus",
             "label": "Data source"},
            {"name": "model", "type": "query", "label": "Model", "multi": True,
             "includeAll": True, "allValue": ".*", "refresh": 2,
             "datasource": {"type": "prometheus", "uid": "${datasource}"},
             "query": "label_values(slipway_model_state, model)"}]},
    }
    head = json.dumps(board, indent=2)[:-2]
    rows = ",\n".join("    " + json.dumps(p, ensure_ascii=False) for p in panels())
    print(f'{head},\n  "panels": [\n{rows}\n  ]\n}}')


if __name__ == "__main__":
    main()

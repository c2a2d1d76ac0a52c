"""Which module registers which part of this package, so that asking for one imports no other.

This file is made by `make generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DEFAULTS", "PARTS"]

PARTS: Mapping[str, Mapping[str, str]] = {
    "strategy": {
        "aue": "driftsurf.strategies.aue:AUE",
        "aware": "driftsurf.strategies.aware:Aware",
        "candor": "driftsurf.strategies.candor:Candor",
        "diversity-pool": "driftsurf.strategies.diversity_pool:DiversityPool",
        "driftsurf": "driftsurf.strategies.driftsurf:DriftSurf",
        "dtel": "driftsurf.strategies.dtel:DTEL",
        "dwm": "driftsurf.strategies.dwm:DWM",
        "dwmil": "driftsurf.strategies.dwmil:DWMIL",
        "exponential-decay": "driftsurf.strategies.exponential_decay:ExponentialDecay",
        "learn-nse": "driftsurf.strategies.learn_nse:LearnNSE",
        "linear-decay": "driftsurf.strategies.linear_decay:LinearDecay",
        "oblivious": "driftsurf.strategies.oblivious:Oblivious",
        "one-pass": "driftsurf.strategies.one_pass:OnePass",
        "paired-learners": "driftsurf.strategies.paired_learners:PairedLearners",
        "perm": "driftsurf.strategies.perm:PERM",
        "portfolio": "driftsurf.strategies.portfolio:Portfolio",
        "reset-on-drift": "driftsurf.strategies.reset_on_drift:ResetOnDrift",
        "sliding-window": "driftsurf.strategies.sliding_window:SlidingWindow",
    },
    "learner": {
        "lightgbm": "driftsurf.learners.foreign.boosting:BoostedTrees",
        "lightgbm-lazy": "driftsurf.learners.foreign.lazy_boosting:LazyBoostedTrees",
        "linear": "driftsurf.learners.regression:LinearRegression",
        "logistic": "driftsurf.learners.logistic:LogisticRegression",
        "naive-bayes": "driftsurf.learners.naive_bayes:NaiveBayes",
        "perceptron": "driftsurf.learners.perceptron:Perceptron",
        "softmax": "driftsurf.learners.softmax:SoftmaxRegression",
        "svm": "driftsurf.learners.svm:LinearSVM",
    },
    "detector": {
        "adwin": "driftsurf.detectors.adwin:ADWIN",
        "ddm": "driftsurf.detectors.ddm:DDM",
        "eddm": "driftsurf.detectors.eddm:EDDM",
        "fhddm": "driftsurf.detectors.fhddm:FHDDM",
        "mddm": "driftsurf.detectors.mddm:MDDM",
        "mddm-a": "driftsurf.detectors.mddm:MDDM",
        "mddm-e": "driftsurf.detectors.mddm:MDDM",
        "mddm-g": "driftsurf.detectors.mddm:MDDM",
        "page-hinkley": "driftsurf.detectors.page_hinkley:PageHinkley",
    },
    "stream": {
        "airline": "driftsurf.data.datasets.real:load",
        "airline-2007": "driftsurf.data.datasets.real:load",
        "circles": "driftsurf.streams.circles:Circles",
        "covertype": "driftsurf.data.datasets.real:load",
        "covertype-sample": "driftsurf.data.datasets.real:load",
        "electricity": "driftsurf.data.datasets.real:load",
        "friedman": "driftsurf.streams.friedman:Friedman",
        "friedman-gradual": "driftsurf.streams.friedman:Friedman",
        "friedman-local": "driftsurf.streams.friedman:Friedman",
        "hyper-fast": "driftsurf.streams.hyperplane:Hyperplane",
        "hyper-slow": "driftsurf.streams.hyperplane:Hyperplane",
        "mixed": "driftsurf.streams.mixed:Mixed",
        "newsgroups20": "driftsurf.data.datasets.real:load",
        "powersupply": "driftsurf.data.datasets.real:load",
        "rcv1": "driftsurf.data.datasets.real:load",
        "recurring": "driftsurf.streams.recurring:Recurring",
        "recurring-rare": "driftsurf.streams.recurring:Recurring",
        "sea-gradual": "driftsurf.streams.sea:SEA",
        "sea0": "driftsurf.streams.sea:SEA",
        "sea10": "driftsurf.streams.sea:SEA",
        "sea20": "driftsurf.streams.sea:SEA",
        "sea30": "driftsurf.streams.sea:SEA",
        "sine1": "driftsurf.streams.sine1:SINE1",
        "spam-assassin": "driftsurf.data.datasets.real:load",
    },
    "format": {
        "arff": "driftsurf.data.formats.arff:ArffReader",
        "arrow": "driftsurf.data.formats.arrow:ArrowReader",
        "csv": "driftsurf.data.formats.csv:CsvReader",
        "excel": "driftsurf.data.formats.excel:ExcelReader",
        "json": "driftsurf.data.formats.json:JsonReader",
        "jsonl": "driftsurf.data.formats.jsonl:JsonLinesReader",
        "libsvm": "driftsurf.data.formats.libsvm:LibsvmReader",
        "parquet": "driftsurf.data.formats.parquet:ParquetReader",
    },
    "source": {
        "file": "driftsurf.data.sources.files:FileSource",
        "kafka": "driftsurf.data.connectors.kafka:KafkaSource",
        "log": "driftsurf.service.log_source:LogSource",
        "mqtt": "driftsurf.data.connectors.mqtt:MqttSource",
        "nats": "driftsurf.data.connectors.nats:NatsSource",
        "objects": "driftsurf.data.sources.objects:ObjectSource",
        "postgresql": "driftsurf.data.connectors.postgresql:PostgresSource",
        "rabbitmq": "driftsurf.data.connectors.rabbitmq:RabbitSource",
        "redis": "driftsurf.data.connectors.redis:RedisSource",
        "stdin": "driftsurf.data.sources.stdin:StandardInput",
    },
    "sink": {
        "csv": "driftsurf.runs.sinks.delimited:CsvSink",
        "jsonl": "driftsurf.runs.sinks.json_lines:JsonLinesSink",
        "kafka": "driftsurf.runs.sinks.connectors:KafkaSink",
        "mqtt": "driftsurf.runs.sinks.connectors:MqttSink",
        "nats": "driftsurf.runs.sinks.connectors:NatsSink",
        "parquet": "driftsurf.runs.sinks.parquet:ParquetSink",
        "postgresql": "driftsurf.runs.sinks.connectors:PostgresSink",
        "rabbitmq": "driftsurf.runs.sinks.connectors:RabbitSink",
        "redis": "driftsurf.runs.sinks.connectors:RedisSink",
        "sqlite": "driftsurf.runs.sinks.connectors:SqliteSink",
        "standard-output": "driftsurf.runs.sinks.standard_output:StandardOutputSink",
    },
    "engine": {
        "local": "driftsurf.keyed.engines.local:LocalEngine",
        "spark": "driftsurf.keyed.engines.spark:SparkEngine",
    },
    "page": {
        "explanation": "driftsurf.explanation.explain:explain",
        "keyed": "driftsurf.report.keys:write_keyed_page",
        "model": "driftsurf.report.model_page:write_model_page",
        "plot": "driftsurf.report.plots:plot_trace",
        "progress": "driftsurf.report.notebook:run_progress",
        "run": "driftsurf.report.run_page:write_run_page",
        "run-html": "driftsurf.report.notebook:result_html",
        "trace-html": "driftsurf.report.notebook:trace_html",
    },
}
"""Module and class of each part, by kind and name."""
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "learner": {"regression": "linear", "binary": "logistic", "multiclass": "softmax"}
}
"""Name of the part to use for a task when no name is given, by kind and task."""

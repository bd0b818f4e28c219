package queueapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the API's own figures. No label takes its values from callers: routes are patterns, methods are known.
type metrics struct {
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	loops    *prometheus.CounterVec
	breakers *prometheus.CounterVec
	handler  http.Handler
}

func newMetrics(registry *prometheus.Registry, prober Prober, polls *hub, version string) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "deadletter_request_duration_seconds",
			Help:    "Time from the start of a request to the end of its answer. Long polls include their wait.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25},
		}, []string{"route", "method", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "deadletter_requests_in_flight",
			Help: "Requests that have not been answered yet, long polls included.",
		}),
		loops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadletter_maintenance_messages_total",
			Help: "Messages that background maintenance has changed, by kind of work.",
		}, []string{"kind"}),
		breakers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadletter_circuit_breaker_changes_total",
			Help: "Times that this process moved a queue's circuit breaker to a state.",
		}, []string{"state"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "deadletter_build_info",
		Help:        "Always 1; the labels describe the running build.",
		ConstLabels: prometheus.Labels{"version": version, "component": "api"},
	})
	info.Set(1)
	registry.MustRegister(m.duration, m.inFlight, m.loops, m.breakers, info, &poolCollector{prober},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "deadletter_long_polls",
			Help: "Claims that are waiting for messages.",
		}, func() float64 { return float64(polls.count()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) observe(pattern, method string, status int, elapsed time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
	default:
		method = "other"
	}
	m.duration.WithLabelValues(pattern, method, strconv.Itoa(status)).Observe(elapsed.Seconds())
}

// serveMetrics answers in the format that the scraper asks for.
func (a *API) serveMetrics(c *call) error {
	a.metrics.handler.ServeHTTP(c.w, c.r)
	return nil
}

// poolCollector reads the connection pool when it is scraped.
type poolCollector struct{ prober Prober }

//nolint:gochecknoglobals // Descriptions are constants that the library cannot declare as such.
var (
	poolConns = prometheus.NewDesc("deadletter_database_pool_connections",
		"Connections of the pool by state.", []string{"state"}, nil)
	poolMax = prometheus.NewDesc("deadletter_database_pool_max_connections",
		"Most connections that the pool may open.", nil, nil)
	poolWaits = prometheus.NewDesc("deadletter_database_pool_waits_total",
		"Times that a call had to wait for a connection.", nil, nil)
	poolWaitSeconds = prometheus.NewDesc("deadletter_database_pool_wait_seconds_total",
		"Time that calls have waited for a connection.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*poolCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{poolConns, poolMax, poolWaits, poolWaitSeconds} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (p *poolCollector) Collect(out chan<- prometheus.Metric) {
	stats := p.prober.PoolStats()
	out <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(stats.Idle), "idle")
	out <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(stats.Acquired), "acquired")
	out <- prometheus.MustNewConstMetric(poolMax, prometheus.GaugeValue, float64(stats.Max))
	out <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(stats.Waits))
	out <- prometheus.MustNewConstMetric(poolWaitSeconds, prometheus.CounterValue, stats.WaitTime.Seconds())
}

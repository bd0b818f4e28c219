package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// probe asks components whether they are ready, as the administrator.
type probe struct {
	place layout
	ports ports
}

func newProbe(place layout, ports ports) *probe { return &probe{place: place, ports: ports} }

func (p *probe) etcd(ctx context.Context) error {
	return p.get(ctx, etcdClient, loopbackURL(p.ports.Etcd)+"/readyz")
}

func (p *probe) apiServer(ctx context.Context) error {
	return p.get(ctx, administrator, loopbackURL(p.ports.APIServer)+"/readyz")
}

// controllerManager waits for the controllers' first visible work as well: no pod can be created in a namespace
// before its default service account exists.
func (p *probe) controllerManager(ctx context.Context) error {
	if err := p.get(ctx, administrator, loopbackURL(p.ports.ControllerManager)+"/healthz"); err != nil {
		return err
	}

	return p.get(ctx, administrator,
		loopbackURL(p.ports.APIServer)+"/api/v1/namespaces/default/serviceaccounts/default")
}

// get expects a successful answer.
func (p *probe) get(ctx context.Context, user, url string) error {
	client, err := p.client(user)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}

	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<12))
	if err != nil {
		return err
	}

	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}

	return nil
}

func (p *probe) client(user string) (*http.Client, error) {
	roots := x509.NewCertPool()

	content, err := os.ReadFile(p.place.certificate(authority))
	if err != nil {
		return nil, err
	}

	roots.AppendCertsFromPEM(content)

	pair, err := tls.LoadX509KeyPair(p.place.certificate(user), p.place.key(user))
	if err != nil {
		return nil, err
	}

	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair},
		}},
	}, nil
}

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

const validity = 365 * 24 * time.Hour

// Names of the certificates in the pki folder.
const (
	authority         = "ca"
	serving           = "serving"
	administrator     = "admin"
	controllerManager = "controller-manager"
	etcdClient        = "etcd-client"
	serviceAccounts   = "service-accounts"
)

// issuer signs certificates.
type issuer struct {
	place       layout
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// issue writes all keys and certificates. The servers share one serving certificate: all of them are on loopback.
func issue(place layout) error {
	if err := os.MkdirAll(place.pki(), 0o700); err != nil {
		return err
	}

	signer, err := newAuthority(place)
	if err != nil {
		return err
	}

	if err := signer.sign(serving, &x509.Certificate{
		Subject: pkix.Name{CommonName: "controlplane"},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		// etcd also uses it as a client of its own gateway and peers.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return err
	}

	for name, subject := range map[string]pkix.Name{
		administrator:     {CommonName: "admin", Organization: []string{"system:masters"}},
		controllerManager: {CommonName: "system:kube-controller-manager"},
		etcdClient:        {CommonName: "kube-apiserver"},
	} {
		err := signer.sign(name, &x509.Certificate{
			Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			return err
		}
	}

	return issueServiceAccountKeys(place)
}

func newAuthority(place layout) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}

	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "controlplane-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}

	signer := &issuer{place: place, certificate: template, key: key}
	if err := signer.write(authority, template, key); err != nil {
		return nil, err
	}

	return signer, nil
}

// sign creates a key and a certificate for it.
func (i *issuer) sign(name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}

	template.KeyUsage = x509.KeyUsageDigitalSignature

	return i.write(name, template, key)
}

func (i *issuer) write(name string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}

	template.SerialNumber = serial
	// Clocks of virtual machines may step back a little.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(validity)

	signed, err := x509.CreateCertificate(rand.Reader, template, i.certificate, key.Public(), i.key)
	if err != nil {
		return err
	}

	if err := writePEM(i.place.certificate(name), "CERTIFICATE", signed); err != nil {
		return err
	}

	return writeKey(i.place.key(name), key)
}

// issueServiceAccountKeys writes the pair that signs and verifies the tokens of service accounts.
func issueServiceAccountKeys(place layout) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}

	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}

	if err := writePEM(place.certificate(serviceAccounts), "PUBLIC KEY", public); err != nil {
		return err
	}

	return writeKey(place.key(serviceAccounts), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	content, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}

	return writePEM(path, "EC PRIVATE KEY", content)
}

func writePEM(path, kind string, content []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}

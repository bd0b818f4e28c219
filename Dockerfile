# syntax=docker/dockerfile:1

# The image of every role: operator, api, migrate. hack/image writes the same image without a container engine; its test
# holds the two to one configuration.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /out/deadletter ./cmd/deadletter

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="deadletter" \
      org.opencontainers.image.description="Message queues as Kubernetes resources, with a dead letter queue worth the name" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY hack/image/rootfs/ /
COPY --from=build --chmod=0555 /out/deadletter /deadletter
USER 65532:65532
ENTRYPOINT ["/deadletter"]

module deadletter.dev/deadletter/hack/controlplane

go 1.26.0

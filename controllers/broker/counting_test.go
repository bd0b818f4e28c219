package broker_test

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// counting counts the requests that write, whether they change something or not.
func counting(upstream client.WithWatch, writes *atomic.Int64) client.Client {
	return interceptor.NewClient(upstream, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes.Add(1)

			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes.Add(1)

			return c.Update(ctx, o, opts...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption,
		) error {
			writes.Add(1)

			return c.Patch(ctx, o, patch, opts...)
		},
		Apply: func(
			ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption,
		) error {
			writes.Add(1)

			return c.Apply(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			writes.Add(1)

			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, name string, o client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			writes.Add(1)

			return c.SubResource(name).Patch(ctx, o, patch, opts...)
		},
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, name string, o client.Object, opts ...client.SubResourceUpdateOption,
		) error {
			writes.Add(1)

			return c.SubResource(name).Update(ctx, o, opts...)
		},
	})
}

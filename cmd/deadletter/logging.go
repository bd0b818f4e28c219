package main

import (
	"log/slog"
	"os"
)

type logging struct {
	Level  slog.Level `default:"info" help:"Least level to log: debug, info, warn or error."`
	Format string     `default:"json" enum:"json,text" help:"Log format: json or text."`
}

func (l logging) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: l.Level}
	if l.Format == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}

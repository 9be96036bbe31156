package com.google.ai.edge.litert;

/** A stand-in: the names that LiteRT 2 has, and nothing behind them. */
public enum Accelerator {
  NONE,
  CPU,
  GPU,
  NPU
}

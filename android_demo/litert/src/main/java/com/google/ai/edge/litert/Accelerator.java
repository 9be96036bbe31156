package com.google.ai.edge.litert;

/** A stand-in: the names that LiteRT 2 has, without its work. */
public enum Accelerator {
  NONE,
  CPU,
  GPU,
  NPU
}

package com.google.ai.edge.litert;

import java.util.List;

/** A stand-in: a file whose outputs have two numbers each; one whose name says so is broken. */
public class Model implements AutoCloseable {
  public static Model load(String path) throws LiteRtException {
    if (path.contains("broken")) throw new LiteRtException("Failed to load " + path);
    return new Model();
  }

  public TensorType getOutputTensorType(String name, String signature) {
    return new TensorType(name.equals("shapeless") ? null : new TensorType.Layout(List.of(1, 2)));
  }

  @Override
  public void close() {}
}

package com.google.ai.edge.litert;

/** A stand-in: numbers that are kept. */
public class TensorBuffer implements AutoCloseable {
  float[] values = new float[0];

  public void writeFloat(float[] data) {
    values = data.clone();
  }

  public void writeInt(int[] data) {
    values = new float[data.length];
    for (int place = 0; place < data.length; place++) values[place] = data[place];
  }

  public float[] readFloat() {
    return values.clone();
  }

  @Override
  public void close() {
    values = null;
  }
}

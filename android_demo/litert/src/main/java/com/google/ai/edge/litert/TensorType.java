package com.google.ai.edge.litert;

import java.util.List;

/** A stand-in: a shape. */
public class TensorType {
  private final Layout layout;

  public TensorType(Layout layout) {
    this.layout = layout;
  }

  public Layout getLayout() {
    return layout;
  }

  /** Sizes of the axes. */
  public static class Layout {
    private final List<Integer> dimensions;

    public Layout(List<Integer> dimensions) {
      this.dimensions = dimensions;
    }

    public List<Integer> getDimensions() {
      return dimensions;
    }
  }
}

package com.google.ai.edge.litert;

import java.util.Map;
import java.util.Set;

/** A stand-in: every output says the sum of all inputs, and how many accelerators were asked for. */
public class CompiledModel implements AutoCloseable {
  private final Options options;

  private CompiledModel(Options options) {
    this.options = options;
  }

  public static CompiledModel create(Model model, Options options, Object environment) {
    return new CompiledModel(options);
  }

  public TensorBuffer createInputBuffer(String name, String signature) {
    return new TensorBuffer();
  }

  public TensorBuffer createOutputBuffer(String name, String signature) {
    return new TensorBuffer();
  }

  public void run(Map<String, TensorBuffer> inputs, Map<String, TensorBuffer> outputs, String signature)
      throws LiteRtException {
    float sum = 0;
    for (TensorBuffer buffer : inputs.values()) {
      if (buffer.values.length == 0) throw new LiteRtException("ErrorMissingInputTensor");
      for (float value : buffer.values) sum += value;
    }
    for (TensorBuffer buffer : outputs.values()) buffer.values = new float[] {sum, options.accelerators.size()};
  }

  @Override
  public void close() {}

  /** What runs it. */
  public static class Options {
    final Set<Accelerator> accelerators;
    private CpuOptions cpuOptions;

    public Options(Accelerator... accelerators) {
      this.accelerators = Set.of(accelerators);
    }

    public CpuOptions getCpuOptions() {
      return cpuOptions;
    }

    public void setCpuOptions(CpuOptions options) {
      cpuOptions = options;
    }
  }

  /** Options of the CPU. */
  public static class CpuOptions {
    public CpuOptions(Integer numThreads, Integer xnnPackFlags, String xnnPackWeightCachePath) {}
  }
}

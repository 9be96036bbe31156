package com.google.ai.edge.litert;

/** A stand-in. Checked in Java, as in LiteRT 2; Kotlin does not mind. */
public class LiteRtException extends Exception {
  public LiteRtException(String message) {
    super(message);
  }
}

"""Exported files in a headless browser: LiteRT.js and onnxruntime-web, on WebAssembly and WebGPU."""

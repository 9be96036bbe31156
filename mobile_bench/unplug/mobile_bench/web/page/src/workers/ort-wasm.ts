// onnxruntime-web on WebAssembly.
import * as ort from "onnxruntime-web/wasm";
import { ortRuntime } from "../ort";
import { serve } from "./serve";

serve(ortRuntime(ort));

// onnxruntime-web on WebGPU.
import * as ort from "onnxruntime-web/webgpu";
import { ortRuntime } from "../ort";
import { serve } from "./serve";

serve(ortRuntime(ort));

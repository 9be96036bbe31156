// One static folder: relative addresses, the runtimes' WebAssembly next to the scripts, nothing from elsewhere.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const modules = join(import.meta.dirname, "node_modules");

const LITERT = join(modules, "@litertjs/core/wasm");

/** LiteRT.js picks its WebAssembly by name at run time, so that no bundler can see it; onnxruntime-web's is bundled. */
function copyLiteRt(): Plugin {
  return {
    name: "copy-litert",
    apply: (_, { command, isSsrBuild }) => command === "build" && !isSsrBuild,
    writeBundle(options) {
      const target = join(options.dir ?? "dist", "runtimes", "litert");
      mkdirSync(target, { recursive: true });
      for (const file of readdirSync(LITERT).filter((name) => !name.includes("jspi"))) cpSync(join(LITERT, file), join(target, file));
    },
  };
}

/** The service worker knows this build and the files that the page itself is made of; it is not a module of the page. */
function writeServiceWorker(): Plugin {
  return {
    name: "write-service-worker",
    apply: (_, { command, isSsrBuild }) => command === "build" && !isSsrBuild,
    writeBundle(options, bundle) {
      const own = Object.keys(bundle).filter((name) => /\.(js|css)$/.test(name)).sort();
      const build = createHash("sha256").update(own.join()).update(readFileSync(join(import.meta.dirname, "index.html"))).digest("hex").slice(0, 12);
      const head = `const BUILD = ${JSON.stringify(build)};\nconst SHELL = ${JSON.stringify(["./", "icon.svg", ...own])};\n`;
      const code = readFileSync(join(import.meta.dirname, "src/sw.js"), "utf8");
      writeFileSync(join(options.dir ?? "dist", "sw.js"), head + code);
    },
  };
}

const version = (name: string): string =>
  (JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")) as { version: string }).version;

export default defineConfig({
  base: "./",
  define: {
    LITERT_VERSION: JSON.stringify(version("@litertjs/core")),
    ORT_VERSION: JSON.stringify(version("onnxruntime-web")),
  },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 2048 },
  // LiteRT.js loads its script with importScripts, which module workers do not have.
  worker: { format: "iife" },
  plugins: [copyLiteRt(), writeServiceWorker()],
});

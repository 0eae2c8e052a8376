// Bundles the dashboard: `node build.mjs FOLDER` writes all that a browser loads into FOLDER, with
// the licences of what is bundled. Names have the hash of their content, so that a browser may keep
// them for ever, but for index.html, which names the others.
import { build } from "esbuild";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

const folder = process.argv[2];
if (!folder) throw new Error("say where to: node build.mjs FOLDER");

const { metafile } = await build({
  entryPoints: ["src/main.tsx"],
  outdir: folder,
  bundle: true,
  minify: true,
  metafile: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  loader: { ".svg": "file" },
  legalComments: "none",
  logLevel: "warning",
});

const outputs = Object.keys(metafile.outputs).map((path) => basename(path));
const named = (end) => {
  const found = outputs.filter((name) => name.startsWith("main-") && name.endsWith(end));
  if (found.length !== 1) throw new Error(`expected one ${end}, got ${outputs}`);
  return found[0];
};
await mkdir(folder, { recursive: true });
const page = await readFile("src/index.html", "utf8");
await writeFile(
  join(folder, "index.html"),
  page.replace("MAIN_JS", named(".js")).replace("MAIN_CSS", named(".css")),
);
await writeFile(join(folder, "licences.txt"), await licences(Object.keys(metafile.inputs)));

async function licences(inputs) {
  const packages = inputs
    .map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
    .filter((name) => name !== undefined);
  const texts = [];
  for (const name of [...new Set(packages)].sort()) {
    const root = join("node_modules", name);
    const about = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    const file = (await readdir(root)).find((each) => /^licen[cs]e/i.test(each));
    if (!file) throw new Error(`${name} has no licence file`);
    const text = await readFile(join(root, file), "utf8");
    texts.push(`${name} ${about.version} (${about.license})\n\n${text.trim()}\n`);
  }
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}

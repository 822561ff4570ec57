// SPDX-License-Identifier: Apache-2.0
//
// node build.mjs OUT.html [PACKAGES.json]: the page as one file that asks nobody for anything; and which packages are in it.
//
// Script and style stand in the file, and its own policy allows these two and no others by their hashes; a server may
// allow them by a nonce as well (__HEAPGAUGE_NONCE__). The data goes where `null` stands in #heapgauge-data. The hash of
// the sources is in the file, so that a page older than them can be told. So are the licences of the packages that it is made of:
// a page that was saved is a copy of them.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
const SOURCES = ['build.mjs', 'package.json', 'package-lock.json', 'tsconfig.json', 'src'];

function filesOf(path) {
	const entries = readdirSync(path, { withFileTypes: true });
	return entries.flatMap((entry) => {
		const full = join(path, entry.name);
		return entry.isDirectory() ? filesOf(full) : [full];
	});
}

/** SHA-256 over the names and contents of everything that the page is made of, in the order of the names. */
export function sourceHash() {
	const files = SOURCES.flatMap((name) => (name === 'src' ? filesOf(join(HERE, name)) : [join(HERE, name)]));
	const hash = createHash('sha256');
	for (const file of files.map((name) => relative(HERE, name).replaceAll('\\', '/')).sort()) {
		const content = readFileSync(join(HERE, file));
		hash.update(`${file}\0${content.length}\0`);
		hash.update(content);
	}
	return hash.digest('hex');
}

function inlineHash(text) {
	return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** The packages that some of the script or style comes from. */
function packagesOf(inputs) {
	const folders = Object.keys(inputs).map((path) => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
	return [...new Set(folders.filter(Boolean))].sort().map((folder) => {
		const { name, version, license } = JSON.parse(readFileSync(join(HERE, folder, 'package.json'), 'utf8'));
		const file = readdirSync(join(HERE, folder)).find((entry) => /^licen[sc]e/i.test(entry));
		if (!file || !license) throw new Error(`${name} comes without a licence`);
		return { name, version, license, text: readFileSync(join(HERE, folder, file), 'utf8').trim() };
	});
}

function noticesOf(packages) {
	const notices = packages.map(({ name, version, license, text }) => `${name} ${version} (${license})\n\n${text}`);
	const all = `This page contains:\n\n${notices.join('\n\n----\n\n')}`;
	if (/--!?>/.test(all)) throw new Error('a licence ends the comment that it stands in');
	return all;
}

async function bundle() {
	const { build } = await import('esbuild');
	const made = await build({
		absWorkingDir: HERE,
		metafile: true,
		entryPoints: [join(HERE, 'src/main.tsx')],
		bundle: true,
		minify: true,
		write: false,
		outdir: 'out',
		format: 'iife',
		target: ['chrome100', 'firefox100', 'safari15.4'],
		jsx: 'automatic',
		jsxImportSource: 'preact',
		legalComments: 'none', // all of them are in the notices
		logLevel: 'warning',
	});
	const textOf = (end) => made.outputFiles.find((file) => file.path.endsWith(end)).text.trim();
	return {
		script: textOf('.js').replaceAll('</script', '<\\/script'),
		style: textOf('.css'),
		packages: packagesOf(made.metafile.inputs),
	};
}

export async function makePage() {
	const { script, style, packages } = await bundle();
	const policy = [
		"default-src 'none'",
		`script-src ${inlineHash(script)}`,
		`style-src ${inlineHash(style)}`,
		"img-src 'self' data:",
		"connect-src 'self'",
		"base-uri 'none'",
		"form-action 'none'",
	].join('; ');
	const parts = {
		__HASH__: sourceHash(),
		__POLICY__: policy,
		__STYLE__: style,
		__SCRIPT__: script,
		__NOTICES__: noticesOf(packages),
	};
	const page = readFileSync(join(HERE, 'src/page.html'), 'utf8').replace(
		/__(HASH|POLICY|STYLE|SCRIPT|NOTICES)__/g,
		(name) => parts[name],
	);
	return { page, packages };
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
	if (process.argv[2] === '--hash') {
		console.log(sourceHash());
	} else {
		const out = process.argv[2] || process.env.HEAPGAUGE_PAGE;
		if (!out) {
			console.error('usage: node build.mjs OUT.html [PACKAGES.json] | --hash');
			process.exit(2);
		}
		const { page, packages } = await makePage();
		mkdirSync(dirname(resolve(out)), { recursive: true });
		writeFileSync(out, page);
		if (process.argv[3]) writeFileSync(process.argv[3], JSON.stringify(packages, null, '\t'));
		console.log(`${out}: ${page.length} bytes`);
	}
}

// SPDX-License-Identifier: Apache-2.0
//
// node dev/serve.mjs HEAPGAUGE FILE.hg [OLD.hg]: the page without building the binary anew, for those who work on it.
// Answers by running the real `heapgauge report`; the page is made anew at each reload. Not for anybody else: no token.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { makePage } from '../build.mjs';

const [heapgauge, file, against] = process.argv.slice(2);
const port = Number(process.env.PORT || 8123);
const FLAGS = new Set(['callees', 'fold-recursion']);

function run(args) {
	return new Promise((done) => {
		const child = spawn(heapgauge, args, { stdio: ['ignore', 'pipe', 'pipe'] });
		const out = [];
		let err = '';
		child.stdout.on('data', (data) => out.push(data));
		child.stderr.on('data', (data) => { err += data; });
		child.on('close', (code) => done({ code, out: Buffer.concat(out), err }));
	});
}

async function result(query) {
	const view = query.get('view') ?? 'summary';
	const compare = query.get('compare') === '1';
	const args = compare ? ['diff', against, file] : ['report', file];
	args.push('--view', view, '--format', 'json');
	for (const [key, value] of query) {
		if (['view', 'compare', 'file'].includes(key))
			continue;
		args.push(`--${key}`);
		if (!FLAGS.has(key))
			args.push(value);
	}
	return run(args);
}

function about() {
	const files = [file, against].filter(Boolean).map((path, index) => ({ index, path, name: basename(path) }));
	return {
		version: 'development', files, compare: Boolean(against), views: [], costs: [], axes: [], moments: [], options: [],
		command: `heapgauge report ${file}`,
	};
}

async function answer(url) {
	if (url.pathname === '/')
		return [200, 'text/html', await makePage()];
	if (url.pathname === '/api/about')
		return [200, 'application/json', JSON.stringify(about())];
	if (url.pathname === '/api/source') {
		const path = url.searchParams.get('file');
		return [200, 'application/json', JSON.stringify({ file: path, from: 'disk', lines: readFileSync(path, 'utf8').split('\n') })];
	}
	if (url.pathname !== '/api/result')
		return [404, 'application/json', JSON.stringify({ error: 'there is nothing here' })];
	const { code, out, err } = await result(url.searchParams);
	if (code !== 0)
		return [400, 'application/json', JSON.stringify({ error: err.replace(/^heapgauge[^:]*: /, '').trim() })];
	return [200, 'application/json', out];
}

createServer((request, response) => {
	answer(new URL(request.url, 'http://localhost')).then(
		([status, type, body]) => response.writeHead(status, { 'content-type': `${type}; charset=utf-8` }).end(body),
		(error) => response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify({ error: error.message })),
	);
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/`));

// SPDX-License-Identifier: Apache-2.0
//
// node dev/serve.mjs HEAPGAUGE FILE.hg... [--against OLD.hg]: the page for those who work on it, made anew at each reload.
// The answers are those of the real `heapgauge view`, which runs behind. Not for anybody else: whoever comes is let in.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { makePage } from '../build.mjs';

const [heapgauge, ...args] = process.argv.slice(2);
const port = Number(process.env.PORT || 8123);

const child = spawn(heapgauge, ['view', '--no-open', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
process.on('exit', () => child.kill());
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit());

const behind = await new Promise((found) => {
	let text = '';
	child.stdout.on('data', (data) => {
		text += data;
		const url = /http:\/\/\S+/.exec(text);
		if (url) found(new URL(url[0]));
	});
});
const hello = await fetch(behind, { redirect: 'manual' });
const cookie = hello.headers.get('set-cookie').split(';')[0];

createServer(async (request, response) => {
	try {
		if (request.url.startsWith('/api/')) {
			const answer = await fetch(new URL(request.url, behind.origin), { headers: { cookie } });
			response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') });
			response.end(Buffer.from(await answer.arrayBuffer()));
		} else {
			const { page } = await makePage();
			response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page);
		}
	} catch (error) {
		response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify({ error: error.message }));
	}
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/`));

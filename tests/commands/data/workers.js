const { Worker, isMainThread, parentPort } = require('worker_threads');
if (isMainThread) {
	let ended = 0, sum = 0;
	for (let i = 0; i < 6; i++)
		new Worker(__filename).on('message', (n) => { sum += n; if (++ended === 6) console.log(sum); });
} else {
	parentPort.postMessage(Array.from({ length: 20000 }, (_, i) => ({ i })).length);
}

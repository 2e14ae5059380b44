// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Perfetto's trace processor as its UI has it: node trace_processor.js WEB_DIST < requests > replies. WEB_DIST is the UI's
// folder; its worker gets what it needs of a browser, and all requests at once.
const fs = require('fs'), path = require('path'), end = process.exit, dist = process.argv[2];
const folder = path.join(dist, fs.readdirSync(dist).find(name => /^v\d/.test(name)));
const file = url => fs.readFileSync(path.join(folder, path.basename(String(url))));
console.log = console.warn = console.error = (...words) => fs.writeSync(2, words.join(' ').slice(0, 500) + '\n');
Object.assign(globalThis, {
  self: globalThis, importScripts() {}, WorkerGlobalScope: class {},
  location: {href: 'http://localhost/engine_bundle.js', protocol: 'http:', host: 'localhost'},
  fetch: async url => new Response(file(url), {headers: {'Content-Type': 'application/wasm'}}),
  XMLHttpRequest: class {
    open(method, url) { this.url = url; }
    send() { this.response = file(this.url); }
  },
});
new Function('process', 'require', file('engine_bundle.js').toString())();
const replies = [], port = {postMessage: data => replies.push(Buffer.from(data))};
globalThis.onmessage({data: port});
// it has loaded its program when it answers
setTimeout(() => {
  port.onmessage({data: new Uint8Array(fs.readFileSync(0))});
  for (const reply of replies)
    for (let at = 0; at < reply.length;) at += fs.writeSync(1, reply, at);
  end(0);
}, 100);

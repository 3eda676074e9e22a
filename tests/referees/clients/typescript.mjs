// A client of a TypeScript SDK: does what a user would, and prints what it saw as JSON.
//
//   node typescript.mjs MODULES URL [client|sdk] [legacy|auto]
//
// `client` is the package that knows both eras, `sdk` its predecessor.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, url, kind = 'client', mode = 'legacy'] = process.argv.slice(2);
const load = createRequire(join(modules, 'here.js'));
const old = kind === 'sdk';
const { Client, StreamableHTTPClientTransport } = old
  ? {
      ...load('@modelcontextprotocol/sdk/client/index.js'),
      ...load('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    }
  : load('@modelcontextprotocol/client');
const SECONDS = 15;

const questions = [];
let changed = () => {};
const change = new Promise((resolve) => (changed = resolve));

function made() {
  const options = { capabilities: { elicitation: {} } };
  if (!old) {
    options.versionNegotiation = { mode };
    options.listChanged = { tools: { autoRefresh: false, onChanged: () => changed() } };
  }
  const client = new Client({ name: 'referee', version: '1' }, options);
  const answer = async (request) => {
    questions.push(request.params.message);
    return { action: 'accept', content: { response: 'blue' } };
  };
  if (old) {
    const types = load('@modelcontextprotocol/sdk/types.js');
    client.setRequestHandler(types.ElicitRequestSchema, answer);
    client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => changed());
  } else {
    client.setRequestHandler('elicitation/create', answer);
  }
  return client;
}

const client = made();
const call = (name, args = {}, options = {}) =>
  old
    ? client.callTool({ name, arguments: args }, undefined, options)
    : client.callTool({ name, arguments: args }, options);
const text = (result) =>
  result.content.filter((block) => block.type === 'text').map((block) => block.text).join('');

const cells = {
  call: async () => ({ text: text(await call('test_simple_text')) }),
  structured: async () => {
    const result = await call('test_structured', { a: 2, b: 3 });
    return { structured: result.structuredContent, text: JSON.parse(text(result)) };
  },
  error: async () => {
    const result = await call('test_error_handling');
    return { error: result.isError, text: text(result) };
  },
  elicitation: async () => {
    const result = await call('test_elicitation', { message: 'Which colour?' });
    return { asked: questions, text: text(result) };
  },
  progress: async () => {
    const steps = [];
    const onprogress = (step) => steps.push([step.progress, step.total, step.message]);
    const result = await call('test_tool_with_progress', {}, { onprogress });
    return { steps, text: text(result) };
  },
  cancel: async () => {
    const stop = new AbortController();
    const options = { signal: stop.signal, onprogress: () => stop.abort() };
    await call('test_slow', {}, options).catch(() => undefined);
    for (;;) {
      const count = text(await call('test_cancelled'));
      if (count !== '0') return { cancelled: count };
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  },
  list_change: async () => {
    const names = async () => (await client.listTools()).tools.map((tool) => tool.name);
    const before = await names();
    await call('test_trigger_tool_change');
    await change;
    const after = await names();
    return {
      more: after.filter((name) => !before.includes(name)),
      fewer: before.filter((name) => !after.includes(name)),
    };
  },
};

const late = () =>
  new Promise((_, reject) => setTimeout(() => reject(new Error('took too long')), SECONDS * 1000).unref());

const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const version = old ? transport.protocolVersion : client.getNegotiatedProtocolVersion();
const seen = { version };
for (const [name, run] of Object.entries(cells)) {
  try {
    seen[name] = await Promise.race([run(), late()]);
  } catch (error) {
    seen[name] = { failed: String(error) };
  }
}
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);

// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The page: asks for the state once a second, and changes only what differs, so that the place of the keyboard and of a
// screen reader stays where it is.

import {drawChart, drawTopology, nameOf, newChart} from './charts.js';

const SAMPLES = 600, HISTORY_PERIOD = 60, EVENTS = 500;
const $ = (id) => document.getElementById(id);
const cards = new Map(), history = new Map();
let token = sessionStorage.getItem('token'), last = {pid: 0, event: 0, time: 0}, topology = '', turns = 0;

// --- asking ---------------------------------------------------------------------------------

class Refused extends Error {}

async function ask(path, method = 'GET', headers = {}) {
  const response = await fetch(path, {method, headers: token ? {Authorization: `Bearer ${token}`, ...headers} : headers,
    signal: AbortSignal.timeout(10000)});
  if (response.status === 401) throw new Refused();
  return response;
}

async function dismiss(address) {
  await ask(`api/dismiss${address ? `?channel=${encodeURIComponent(address)}` : ''}`, 'POST',
    {'X-Gpudirect': 'dismiss'});
  turn();
}

$('dismiss').addEventListener('click', () => dismiss());

$('login').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token').value.trim();
  sessionStorage.setItem('token', token);
  $('token').value = '';
  turn();
});

// --- words ----------------------------------------------------------------------------------

const number = (value, digits = 4) => value === null ? '0' : String(Number(value.toPrecision(digits)));
const count = (value) => value.toLocaleString('en');

function time(seconds) {
  if (seconds === null || seconds === undefined) return 'unknown';
  if (seconds < 1e-3) return `${number(seconds * 1e6, 3)} µs`;
  return seconds < 1 ? `${number(seconds * 1e3, 3)} ms` : `${number(seconds, 3)} s`;
}

const atMost = (seconds) => seconds === null ? 'unknown' : `≤ ${time(seconds)}`;
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString('en-GB');
const plural = (value, word) => `${value} ${word}${value === 1 ? '' : 's'}`;

function set(element, text, kind) {
  if (element.textContent !== text) element.textContent = text;
  if (kind !== undefined && element.className !== kind) element.className = kind;
}

function make(name, kind, ...children) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...children);
  return element;
}

// A list of terms whose values are set by name.
function makeTerms(terms) {
  const list = make('dl'), values = {};
  for (const [key, term] of Object.entries(terms)) {
    values[key] = make('dd');
    list.append(make('div', '', make('dt', '', term), values[key]));
  }
  return {list, values};
}

// --- history --------------------------------------------------------------------------------

function seriesOf(key) {
  if (!history.has(key)) history.set(key, {rate_hz: [], dropped: [], latency_p99_s: []});
  return history.get(key);
}

function append(key, sample) {
  const series = seriesOf(key);
  for (const [name, value] of Object.entries(sample)) {
    series[name].push(value);
    if (series[name].length > SAMPLES) series[name].shift();
  }
}

async function loadHistory() {
  const answer = await (await ask('api/history')).json();
  history.clear();
  for (const channel of answer.channels) {
    history.set(channel.address, channel);
    for (const receiver of channel.receivers) history.set(`${channel.address} ${receiver.id}`, receiver);
  }
}

// --- receivers ------------------------------------------------------------------------------

function newReceiver() {
  const item = make('li'), title = make('h4'), reason = make('p', 'faint'), chart = newChart('Latency p99');
  const {list, values} = makeTerms({route: 'Route', rate: 'Frames/s', lost: 'Lost', p50: 'Latency p50', p99: 'p99',
    max: 'max', copies: 'Copies', waits: 'CPU waits', held: 'Holds'});
  item.append(title, list, reason, chart.heading, chart.svg);
  return {item, title, reason, chart, values};
}

const copies = (side) => `${count(side.copies_cpu)} CPU, ${count(side.copies_gpu)} GPU`;

function lostWords(receiver) {
  const causes = [['no free slot', receiver.dropped_newest], ['replaced', receiver.dropped_oldest],
    ['failed', receiver.dropped_failed], ['new format', receiver.dropped_format]].filter((cause) => cause[1] > 0);
  const words = causes.map((cause) => `${cause[0]} ${count(cause[1])}`).join(', ');
  return count(receiver.dropped) + (words ? ` (${words})` : '');
}

const processOf = (peer) =>
  (peer.pid ? `process ${peer.pid}` : 'process unknown') + (peer.host ? ` on ${peer.host}` : '');

function showReceiver(parts, channel, receiver) {
  const {values} = parts, losing = receiver.dropped_hz > 0;
  set(parts.title, `${nameOf(receiver)}, ${processOf(receiver)}`);
  set(values.route, `${receiver.route ?? 'none'} to ${receiver.device ?? '?'}` +
    (receiver.encrypted ? `, encrypted: ${receiver.encrypted}` : '') +
    (receiver.state === 'streaming' ? '' : `, ${receiver.state}`), receiver.degraded ? 'warn' : '');
  set(values.rate, number(receiver.rate_hz));
  set(values.lost, lostWords(receiver), losing ? 'warn' : '');
  set(values.p50, atMost(receiver.latency_p50_s));
  set(values.p99, atMost(receiver.latency_p99_s));
  set(values.max, time(receiver.latency_max_s));
  set(values.copies, copies(receiver));
  set(values.waits, count(receiver.waits_cpu + receiver.waits_device));
  set(values.held, plural(receiver.held, 'frame'));
  const judgement = receiver.degraded ? `Worse than the devices allow (${receiver.degraded})` : 'Not better';
  set(parts.reason, receiver.reason ? `${judgement}, because ${receiver.reason}` : '',
    receiver.degraded ? 'warn' : 'faint');
  const series = seriesOf(`${channel.address} ${receiver.id}`);
  drawChart(parts.chart, series.latency_p99_s, series.dropped, time,
    `99th percentile of the latency of ${nameOf(receiver)} over ten minutes, now ` +
    atMost(receiver.latency_p99_s));
}

// --- channels -------------------------------------------------------------------------------

function newCard(address) {
  const image = make('img'), caption = make('figcaption');
  const title = make('h3', '', address), state = make('span'), rate = make('p', 'rate'), media = make('p');
  const sender = make('p', 'faint'), lost = make('p', 'faint'), chart = newChart('Frames/s');
  const button = make('button', '', 'Dismiss'), waiting = make('ul', 'waiting');
  const receivers = make('ul', 'receivers'), heading = make('div', 'title', title, state);
  const what = make('div', 'what', heading, rate, media, sender, lost, waiting, button);
  const card = make('article', '', make('header', '', make('figure', '', image, caption), what),
    chart.heading, chart.svg, receivers);
  title.id = `channel-${cards.size}-${Date.now()}`;
  card.setAttribute('aria-labelledby', title.id);
  image.hidden = true;
  image.alt = `Picture of ${address}`;
  button.type = 'button';
  button.setAttribute('aria-label', `Dismiss ${address}`);
  button.addEventListener('click', () => dismiss(address));
  const parts = {address, card, image, caption, state, rate, media, sender, lost, waiting, button, chart,
    list: receivers, receivers: new Map(), visible: true, busy: false};
  new IntersectionObserver((entries) => { parts.visible = entries.at(-1).isIntersecting; }).observe(card);
  return parts;
}

const KINDS = {off: 'faint', good: 'good', warning: 'warn', bad: 'bad'};

const isThere = (channel) => channel.presence === 'there';
const canDismiss = (channel) => channel.presence === 'gone' && !channel.expected;

// Of a channel that is not there, or does not answer: why.
function reasonOf(channel) {
  if (channel.presence === 'gone') return `Gone since ${clock(channel.absent_since_s)}: ${channel.reason}`;
  if (channel.presence === 'never') return channel.expected ? 'Expected, and never there' : 'It was never there';
  return channel.reason;
}

function waitingWords(waiter) {
  return `${waiter.name ?? 'a process'}, ${waiter.pid ? `process ${waiter.pid}` : 'in another container'}, ` +
    `waits since ${clock(waiter.since_s)}`;
}

function showChannel(parts, channel) {
  const series = seriesOf(channel.address), answers = channel.answered;
  set(parts.state, channel.state, KINDS[channel.severity]);
  set(parts.rate, answers ? `${number(channel.rate_hz)} frames/s` : '');
  set(parts.media, answers ? channel.brief : channel.announced && channel.brief && channel.presence === 'there' ?
    `${channel.brief}; ${reasonOf(channel)}` : reasonOf(channel));
  parts.media.title = channel.media ?? '';
  set(parts.sender, answers ? `${channel.sender}, ${processOf(channel)}, on ${channel.device}; copies ` +
    copies(channel) : channel.expected && channel.presence === 'gone' ? 'It is expected' : '');
  set(parts.lost, answers && !channel.receivers.length ? 'No receivers' : '');
  const waiting = channel.waiting.map(waitingWords);
  if (parts.waiting.textContent !== waiting.join(''))
    parts.waiting.replaceChildren(...waiting.map((words) => make('li', 'warn', words)));
  parts.button.hidden = !canDismiss(channel);
  parts.chart.heading.hidden = channel.presence === 'never';
  parts.chart.svg.toggleAttribute('hidden', channel.presence === 'never');
  drawChart(parts.chart, series.rate_hz, series.dropped, number,
    `Frames per second of ${channel.address} over ten minutes, now ${number(channel.rate_hz)}`);
  update(parts.receivers, channel.receivers, (receiver) => receiver.id, newReceiver,
    (receiver, info) => showReceiver(receiver, channel, info), parts.list, 'item');
}

// Makes, shows, orders and removes the elements of a list.
function update(known, list, keyOf, create, show, place, element) {
  const keys = new Set(list.map(keyOf));
  for (const [key, parts] of known) {
    if (!keys.has(key)) {
      parts[element].remove();
      known.delete(key);
    }
  }
  list.forEach((info, i) => {
    const key = keyOf(info);
    if (!known.has(key)) known.set(key, create(key));
    const parts = known.get(key);
    show(parts, info);
    if (place.children[i] !== parts[element]) place.insertBefore(parts[element], place.children[i] ?? null);
  });
}

async function showPicture(parts, channel) {
  if (parts.busy || !parts.visible || document.hidden) return;
  if (!channel.answered || !(channel.has_picture || channel.kind === 'Sound')) {
    parts.image.hidden = true;
    set(parts.caption, channel.answered ? channel.kind ?? 'No format yet' : channel.state);
    return;
  }
  parts.busy = true;
  try {
    const response = await ask(`api/thumbnail?channel=${encodeURIComponent(channel.address)}`);
    const before = parts.image.src;
    const shows = response.status === 200; // 202: there is none, and the text says why
    if (shows) parts.image.src = URL.createObjectURL(await response.blob());
    parts.image.alt = `${channel.has_picture ? 'Picture' : 'Levels'} of ${channel.address}`;
    set(parts.caption, shows ? '' : (await response.text()).trim());
    parts.image.hidden = !shows;
    if (shows && before) URL.revokeObjectURL(before);
  } catch {
    set(parts.caption, 'No picture');
  } finally {
    parts.busy = false;
  }
}

// --- events ---------------------------------------------------------------------------------

const SEVERE = new Set(['loss', 'silent', 'gone', 'missing', 'waiting', 'signal', 'refused', 'degraded']);

function showEvents(events) {
  const list = $('events');
  for (const event of events) {
    const at = new Date(event.time_s * 1000), clock = make('time', '', at.toLocaleTimeString('en-GB'));
    clock.dateTime = at.toISOString();
    list.prepend(make('li', '', clock, make('span', SEVERE.has(event.kind) ? 'warn' : '', event.kind),
      make('span', '', `${event.channel ? `${event.channel}: ` : ''}${event.text}`)));
    last.event = event.number;
  }
  while (list.children.length > EVENTS) list.lastChild.remove();
  $('no-events').hidden = list.children.length > 0;
  const severe = events.filter((event) => SEVERE.has(event.kind)).at(-1);
  if (severe && last.time) set($('alert'), `${severe.channel}: ${severe.text}`);
}

// --- every second ---------------------------------------------------------------------------

function showState(state) {
  const receivers = state.channels.reduce((sum, channel) => sum + channel.receivers.length, 0);
  if (state.pid !== last.pid) {
    $('events').replaceChildren();
    last = {pid: state.pid, event: 0, time: 0};
  }
  const there = state.channels.filter(isThere).length, gone = state.channels.filter(canDismiss).length;
  set($('summary'), `${state.host}: ${plural(there, 'channel')}, ${plural(receivers, 'receiver')}`);
  const severities = state.channels.map((channel) => channel.severity);
  const bad = severities.filter((severity) => severity === 'bad').length;
  const troubles = bad + severities.filter((severity) => severity === 'warning').length;
  set($('troubles'), troubles ? plural(troubles, 'trouble') : 'no trouble', troubles ? bad ? 'bad' : 'warn' : 'good');
  document.title = `${troubles ? `(${troubles}) ` : ''}gpudirect-monitor`;
  $('dismiss').hidden = gone < 2;
  if ($('notes').textContent !== state.notes.join(''))
    $('notes').replaceChildren(...state.notes.map((note) => make('li', '', note)));
  if (state.time_s !== last.time) {
    for (const channel of state.channels) {
      append(channel.address, channel.sample);
      for (const receiver of channel.receivers) append(`${channel.address} ${receiver.id}`, receiver.sample);
    }
  }
  update(cards, state.channels, (channel) => channel.address, newCard, showChannel, $('channels'), 'card');
  for (const channel of state.channels) showPicture(cards.get(channel.address), channel);
  showTopology(state.channels);
  showEvents(state.events);
  last.time = state.time_s;
}

function showTopology(channels) {
  const drawn = JSON.stringify([$('topology').clientWidth, channels.map((channel) => [channel.address, channel.answered,
    channel.device, channel.sender, channel.state, channel.waiting, channel.receivers.map((one) =>
      [one.id, one.name, one.device, one.host, one.route, one.dropped_hz > 0])])]);
  if (drawn !== topology) drawTopology($('topology'), channels);
  topology = drawn;
}

async function turn() {
  try {
    if (turns++ % HISTORY_PERIOD === 0) await loadHistory();
    const response = await ask(`api/state?after=${last.event}`);
    if (!response.ok) throw new Error((await response.text()).trim());
    showState(await response.json());
    set($('trouble'), '');
    $('login').hidden = true;
  } catch (error) {
    turns = 0;
    $('login').hidden = !(error instanceof Refused);
    set($('trouble'), error instanceof Refused ? (token ? 'That is not the token.' : '') :
      'No answer from the monitor; trying again.');
  }
}

// Not an interval: an answer that takes longer delays the next question.
async function run() {
  for (;;) {
    if ($('login').hidden) await turn();
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 5000 : 1000));
  }
}

run();

// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Pictures of numbers, as SVG. Peers' words become text nodes, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const SAMPLES = 600;

function make(name, attributes = {}, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A chart, and above it what it shows and its highest value.
export function newChart(title) {
  const [heading, text, most] = ['p', 'span', 'span'].map((name) => document.createElement(name));
  heading.className = 'chart-title';
  text.textContent = `${title}, last 10 minutes`;
  heading.append(text, most);
  const svg = make('svg', {class: 'chart', viewBox: `0 0 ${SAMPLES} 44`, preserveAspectRatio: 'none', role: 'img'});
  svg.append(make('path', {class: 'values'}), make('path', {class: 'lost'}));
  return {heading, most, svg};
}

// values: the newest last, null where unknown; lost: likewise, drawn from the bottom where it is not 0.
export function drawChart({most: mostText, svg}, values, lost, words, label) {
  const highest = Math.max(...values.filter((value) => value !== null), 0), most = Math.max(highest, 1e-9) * 1.1;
  let path = '', pen = 'M';
  values.forEach((value, i) => {
    const x = SAMPLES - values.length + i;
    if (value !== null) path += `${pen}${x} ${(42 - 40 * value / most).toFixed(1)}`;
    pen = value === null ? 'M' : 'L';
  });
  svg.querySelector('.values').setAttribute('d', path);
  svg.querySelector('.lost').setAttribute('d', lost.map((value, i) =>
    value > 0 ? `M${SAMPLES - lost.length + i} 44v-12` : '').join(''));
  mostText.textContent = highest > 0 ? `up to ${words(highest)}` : '';
  svg.setAttribute('aria-label', label);
}

function fit(text, width) {
  const room = Math.max(Math.floor(width / 7.2), 3);
  return text.length > room ? `${text.slice(0, room - 1)}…` : text;
}

// Of a receiver, as in the events: with its sender's number of it.
export const nameOf = (receiver) => (receiver.name ?? 'a process') + (receiver.id ? ` #${receiver.id}` : '');

function drawBox(svg, x, y, width, name, below) {
  svg.append(make('rect', {x, y, width, height: 40, rx: 5}),
    make('text', {x: x + 8, y: y + 17}, fit(name, width - 12)),
    make('text', {x: x + 8, y: y + 33, class: 'faint'}, fit(below, width - 12)));
}

// Channels on the left, receivers on the right.
export function drawTopology(place, channels) {
  const width = Math.max(place.clientWidth, 280), box = Math.min(width * 0.36, 260), words = [];
  const svg = make('svg', {role: 'img'});
  let y = 12;
  for (const channel of channels) {
    const waiting = channel.waiting.map((one) => ({name: one.name, route: 'waits', device: 'no sender', waits: true}));
    const receivers = [...channel.receivers, ...waiting], height = Math.max(receivers.length, 1) * 50;
    const middle = y + height / 2 - 25;
    receivers.forEach((receiver, i) => {
      const to = y + i * 50, from = box + 12, end = width - box - 12, half = (from + end) / 2;
      const losing = receiver.dropped_hz > 0 || receiver.waits;
      svg.append(make('path', {class: losing ? 'losing' : receiver.degraded ? 'degraded' : '',
        d: `M${from} ${middle + 20}C${half} ${middle + 20} ${half} ${to + 20} ${end} ${to + 20}`}));
      svg.append(make('text', {class: 'label', x: half + (end - half) * 0.45, y: to + 17, 'text-anchor': 'middle'},
        receiver.route ?? 'none'));
      drawBox(svg, width - box - 12, to, box, nameOf(receiver),
        [receiver.device, receiver.host].filter(Boolean).join(' on '));
      words.push((receiver.waits ? `${nameOf(receiver)} waits for ${channel.address}` :
        `${channel.address} to ${nameOf(receiver)} by ${receiver.route ?? 'no route'}`) +
        (receiver.waits ? '' : losing ? ', losing frames' : receiver.degraded ? ', worse than the devices allow' : ''));
    });
    drawBox(svg, 12, middle, box, channel.address, channel.answered ? `${channel.sender} on ${channel.device}` :
      channel.state);
    if (receivers.length === 0) words.push(`${channel.address} without receivers`);
    y += height + 12;
  }
  svg.setAttribute('viewBox', `0 0 ${width} ${y}`);
  svg.setAttribute('height', y);
  svg.setAttribute('aria-label', words.length ? words.join('; ') : 'No channels');
  place.replaceChildren(svg);
}

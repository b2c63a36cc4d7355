// Draws what kdump.verify.partitionmap says. All texts of files go in as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById('map-data').textContent);
  const map = document.getElementById('map');
  const SVG = 'http://www.w3.org/2000/svg';
  const number = new Intl.NumberFormat('en');
  let byTime = false;

  const element = (name, style, text) => {
    const made = document.createElement(name);
    if (style) made.className = style;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const date = ms => new Date(ms).toISOString().replace('T', ' ').slice(0, 19);
  const size = bytes => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let unit = 0;
    while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit++; }
    return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
  };
  const count = (n, one, many) => `${number.format(n)} ${n === 1 ? one : many || one + 's'}`;

  // Clocks that were far off must not squeeze the others.
  const groups = [data.error, data.warning, data.info], partitions = groups.flatMap(group => group.rows);
  const times = partitions.flatMap(row => row.lanes.flatMap(lane =>
    lane.segments.flatMap(block => block[2] === null ? [] : [block[2], block[3]]))).sort((a, b) => a - b);
  const middle = times[times.length >> 1], decade = 315576e6;
  const near = times.filter(time => Math.abs(time - middle) < decade);
  const hasTimes = near.length > 0;
  const wholeTime = hasTimes ? [near[0], Math.max(near[near.length - 1], near[0] + 1)] : null;

  // From offsets to places: a straight line through the first and last offset of each segment.
  function scale(row) {
    if (!byTime) {
      const [low, high] = span(row);
      return () => offset => Math.min(Math.max((offset - low) / (high - low), 0), 1) * 100;
    }
    const [begin, end] = wholeTime;
    return lane => {
      const points = lane.segments.filter(block => block[2] !== null)
        .flatMap(block => [[block[0], block[2]], [block[1], block[3]]]);
      return offset => {
        if (!points.length) return null;
        let low = 0, high = points.length - 1;
        while (high - low > 1) {
          const half = (low + high) >> 1;
          if (points[half][0] <= offset) low = half; else high = half;
        }
        const [[a, s], [b, t]] = [points[low], points[high]];
        const part = b === a ? 0 : Math.min(Math.max((offset - a) / (b - a), 0), 1);
        return Math.min(Math.max((s + (t - s) * part - begin) / (end - begin), 0), 1) * 100;
      };
    };
  }
  // The offsets of a row: of its segments, and of what is missing before or after them, unless it is far away.
  function span(row) {
    let low = Infinity, high = -Infinity;
    for (const lane of row.lanes) for (const block of lane.segments) {
      low = Math.min(low, block[0]);
      high = Math.max(high, block[1]);
    }
    const far = Math.max(high - low, 100) / 2, [first, end] = [low, high];
    for (const lane of row.lanes) for (const [kind, from, to] of lane.marks) if (kind === 'gap') {
      if (from >= first - far) low = Math.min(low, from);
      if (to <= end + far) high = Math.max(high, to);
    }
    return [low, Math.max(high, low + 1)];
  }

  const TOPS = {damage: [2, 20], warning: [2, 20], gap: [5, 14], open: [0, 4], aborted: [0, 4], beside: [20, 4]};

  function bar(svg, style, from, to, top, height, words, command) {
    // A line is shown however short its stretch is; a rectangle without a width is not.
    const isLine = style.endsWith('start');
    const made = document.createElementNS(SVG, isLine ? 'line' : 'rect');
    const places = isLine ? {x1: from, x2: from} : {x: from, width: Math.max(to - from, .2)};
    for (const [name, value] of Object.entries(places)) made.setAttribute(name, `${value.toFixed(3)}%`);
    for (const [name, value] of Object.entries(isLine ? {y1: top, y2: top + height} : {y: top, height}))
      made.setAttribute(name, value);
    made.setAttribute('class', style);
    made.words = words;
    made.command = command;
    if (command) made.setAttribute('tabindex', '0');
    svg.append(made);
  }

  function drawLane(lane, place) {
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('height', 25);
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-label', `${lane.where}: ${count(lane.segments.length, 'segment')}, ${count(lane.marks.length, 'mark')}`);
    for (const [first, end, begin, last, bytes, state, file] of lane.segments) {
      const from = place(first), to = place(end);
      if (from === null || (byTime && begin === null)) continue;
      const when = begin === null ? '' : `\n${date(begin)} to ${date(last)}`;
      const offsets = end > first ? `offsets ${number.format(first)} to ${number.format(end - 1)}` : `empty from offset ${number.format(first)} on`;
      bar(svg, `block state${state}`, from, to, 6, 12, `${file}\n${offsets}, ${bytes === null ? '' : size(bytes)}${when}`);
    }
    const order = ['aborted', 'open', 'gap', 'beside', 'warning', 'damage'];
    for (const [kind, first, end, words, command] of [...lane.marks].sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]))) {
      const from = place(first), to = place(Math.max(end, first));
      if (from !== null) bar(svg, `mark ${kind}`, Math.min(from, to), Math.max(from, to), ...TOPS[kind], words, command);
    }
    if (lane.start) {
      const at = place(lane.start.at);
      if (at !== null) bar(svg, 'mark start', at, at, 0, 25, `offset ${number.format(lane.start.at)}\n${lane.start.words}`);
    }
    return svg;
  }

  function fill(holder) {
    const row = holder.row, ranges = scale(row);
    holder.replaceChildren();
    const name = element('div', 'name', row.name);
    holder.append(name);
    const lanes = element('div', 'lanes');
    for (const lane of row.lanes) {
      if (row.lanes.length > 1) lanes.append(element('span', 'where', lane.where));
      lanes.append(drawLane(lane, ranges(lane)));
    }
    if (!byTime) {
      const axis = element('div', 'axis');
      axis.append(...span(row).map(offset => element('span', '', number.format(offset))));
      lanes.append(axis);
    } else if (!row.lanes.some(lane => lane.segments.some(block => block[2] !== null))) {
      lanes.append(element('div', 'axis', 'no timestamps'));
    }
    holder.append(lanes);
    holder.isDrawn = true;
  }

  // Thousands of rows are drawn as they come into sight.
  const seen = new IntersectionObserver(changes => changes.forEach(change => {
    if (change.isIntersecting && !change.target.isDrawn) fill(change.target);
  }), {rootMargin: '600px'});

  function add(rows, to) {
    const part = document.createDocumentFragment();
    for (const row of rows) {
      const holder = element('div', 'row');
      holder.row = row;
      holder.style.minHeight = `${row.lanes.length * (row.lanes.length > 1 ? 43 : 25) + 16}px`;
      part.append(holder);
      seen.observe(holder);
    }
    to.append(part);
  }

  const timeAxis = element('div', 'axis time');
  function redraw() {
    timeAxis.replaceChildren();
    timeAxis.hidden = !byTime;
    if (byTime) for (let part = 0; part <= 4; part++)
      timeAxis.append(element('span', '', date(wholeTime[0] + (wholeTime[1] - wholeTime[0]) * part / 4)));
    for (const holder of map.querySelectorAll('.row')) if (holder.isDrawn) fill(holder);
  }

  const head = element('div', 'head'), legend = element('div', 'legend');
  for (const [style, words] of [['block state0', 'segment'], ['block state1', 'with a warning'], ['block state2', 'with an error'],
    ['mark damage', 'damage'], ['mark gap', 'missing offsets'], ['mark beside', 'index or other file missing or wrong'],
    ['mark open', 'open transaction'], ['mark aborted', 'aborted'], ['mark start', 'where a start ends the log']]) {
    const key = element('span', 'key'), svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('width', 18);
    svg.setAttribute('height', 14);
    bar(svg, style, style.endsWith('start') ? 50 : 0, style.endsWith('start') ? 50 : 100, 1, 12);
    key.append(svg, element('span', '', words));
    legend.append(key);
  }
  head.append(legend);
  if (hasTimes) {
    const turn = element('div', 'switch');
    for (const [words, value] of [['by offset', false], ['by time', true]]) {
      const button = element('button', value ? '' : 'on', words);
      button.onclick = () => {
        byTime = value;
        turn.querySelectorAll('button').forEach(one => one.classList.toggle('on', one === button));
        redraw();
      };
      turn.append(button);
    }
    head.append(turn);
  }
  map.append(head, timeAxis);
  const said = [rows => '', rows => 'warnings only', rows => `nothing is wrong with ${rows.length === 1 ? 'it' : 'them'}`];
  let before = 0;
  groups.forEach((group, worst) => {
    if (!group.rows.length) return;
    const rows = element('div', 'rows');
    if (worst === 0) {
      map.append(rows);
      add(group.rows, rows);
    } else {
      const words = `${count(group.rows.length, before ? 'more partition' : 'partition')}: ${said[worst](group.rows)} ` +
        `(${count(group.segments, 'segment')}, ${size(group.bytes)})`;
      const fold = element('button', 'fold');
      const turn = isOpen => {
        rows.hidden = !isOpen;
        fold.textContent = `${isOpen ? '\u25be' : '\u25b8'} ${words}`;
        if (isOpen && !rows.childElementCount) add(group.rows, rows);
      };
      fold.onclick = () => turn(rows.hidden);
      map.append(fold, rows);
      turn(before + group.rows.length <= 12);
    }
    before += group.rows.length;
  });
  if (!before) map.append(element('p', '', 'There is no log.'));
  if (data.elsewhere) map.append(element('p', '', `${count(data.elsewhere, 'finding')} about other files: see the table of findings.`));
  redraw();

  // A hover shows what a mark is; a click keeps it, so that the command can be copied.
  const tip = element('div', 'tip'), kept = element('div', 'kept');
  tip.hidden = kept.hidden = true;
  document.body.append(tip);
  map.append(kept);
  const tell = (into, target) => {
    into.replaceChildren(...target.words.split('\n').map(line => element('div', '', line)));
    if (target.command) into.append(element('code', '', target.command));
    into.hidden = false;
  };
  const place = event => {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + box.height + 24 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16}px`;
  };
  map.addEventListener('mousemove', event => {
    if (!event.target.words) { tip.hidden = true; return; }
    tell(tip, event.target);
    place(event);
  });
  map.addEventListener('mouseleave', () => { tip.hidden = true; });
  map.addEventListener('click', event => { if (event.target.words) tell(kept, event.target); });
  map.addEventListener('keydown', event => { if (event.key === 'Enter' && event.target.words) tell(kept, event.target); });
})();

// SPDX-License-Identifier: Apache-2.0
// Names to display: which frame of a stack represents it, and shortened function names.
import type { FlameName, Frame } from './types';

export function base(path: string | null | undefined): string {
	return path ? path.slice(path.lastIndexOf('/') + 1) : '';
}

/** Whether this Python function imports modules, as in src/model/frames/fold.c. */
export function importsModules(name: FlameName): boolean {
	return /^<frozen importlib\._bootstrap|\/importlib\/__init__\.py$/.test(name.file ?? '');
}

const NAMELESS = /^\[|^0|\+0x/;

/** The innermost frame of own code, else the innermost informative one, as in src/analysis/result/locations.c. */
export function ownerOf(stack: readonly number[], frames: readonly Frame[]): Frame | undefined {
	let own: Frame | undefined;
	let informative: Frame | undefined;
	for (let i = stack.length - 1; i >= 0; i--) {
		const frame = frames[stack[i]!];
		if (!frame || frame.function.startsWith('[') || frame.runtime_frame) continue;
		const nameless = NAMELESS.test(frame.function);
		// A frame without a name is not skipped, except for one with a name in the same module.
		if (!nameless || !informative || NAMELESS.test(informative.function) || informative.module !== frame.module) informative = frame;
		if (frame.own && !nameless) own = frame;
	}
	return own ?? informative ?? frames[stack[0] ?? -1];
}

/** The position after the bracket that closes the one at `at`. */
function behindBracket(text: string, at: number): number {
	const open = text[at]!;
	const close = open === '<' ? '>' : open === '(' ? ')' : '}';
	let depth = 0;
	for (let i = at; i < text.length; i++) {
		if (text[i] === '-' && text[i + 1] === '>') i++;
		else if (text[i] === open) depth++;
		else if (text[i] === close && --depth === 0) return i + 1;
	}
	return text.length;
}

function shorten(name: string): string {
	let out = '';
	let at = 0;
	while (at < name.length) {
		const operator = /^operator(?:<<=?|<=>|<=?|>>=?|>=?|->\*?|\(\))/.exec(name.slice(at, at + 12));
		if (operator && !/\w$/.test(out)) {
			out += operator[0];
			at += operator[0].length;
			continue;
		}
		const c = name[at]!;
		if (c === '<' && out !== '') {
			at = behindBracket(name, at);
			out += '<\u2026>';
		} else if (c === '(' && out !== '' && !name.startsWith('(anonymous namespace)', at)) {
			at = behindBracket(name, at);
			if (/^(?: const| volatile|&&?|\[clone[^\]]*\]| )+/.test(name.slice(at)))
				at += /^(?: const| volatile|&&?| )*/.exec(name.slice(at))![0].length;
		} else {
			out += c;
			at++;
		}
	}
	return out.trim();
}

/** Strips the return type, which the demangler writes before some names. */
function withoutReturned(name: string): string {
	let depth = 0;
	let cut = 0;
	for (let i = 0; i < name.length; i++) {
		const c = name[i]!;
		if (name.startsWith('operator', i)) break;
		if (c === '<' || c === '(' || c === '{') depth++;
		else if ((c === '>' || c === ')' || c === '}') && depth) depth--;
		else if (c === ' ' && depth === 0) cut = i + 1;
	}
	return name.slice(cut);
}

const kept = new Map<string, string>();

/** Without arguments, and with an ellipsis for template arguments: Cache<…>::insert. */
export function shortName(name: string): string {
	if (!/[<( ]/.test(name) || name.startsWith('[')) return name;
	let known = kept.get(name);
	if (known === undefined) {
		const short = shorten(name);
		known = withoutReturned(short) || short || name;
		if (kept.size > 50000) kept.clear();
		kept.set(name, known);
	}
	return known;
}

/** The label of a stack in a list. */
export function ownerLabel(stack: readonly number[], frames: readonly Frame[]): string {
	const owner = ownerOf(stack, frames);
	return owner ? shortName(owner.function) : '[no stack]';
}

/** cache.cc:88, or the module if there is no source location. */
export function placeOf(frame: { file: string | null; line: number; module: string | null }): string {
	if (frame.file) return frame.line ? `${base(frame.file)}:${frame.line}` : base(frame.file);
	return base(frame.module);
}

/** The function and the place of "Cache::insert (store.cc:35)". */
export function splitOwner(own: string): { name: string; place: string } {
	const at = own.endsWith(')') ? own.lastIndexOf(' (') : -1;
	return at < 0 ? { name: own, place: '' } : { name: own.slice(0, at), place: own.slice(at + 2, -1) };
}

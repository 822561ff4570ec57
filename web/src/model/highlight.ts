// SPDX-License-Identifier: Apache-2.0
// Syntax highlighting, line by line.
import hljs from 'highlight.js/lib/core';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import go from 'highlight.js/lib/languages/go';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';

hljs.registerLanguage('c', c);
hljs.registerLanguage('cpp', cpp);
hljs.registerLanguage('go', go);
hljs.registerLanguage('python', python);
hljs.registerLanguage('rust', rust);

const LANGUAGES: readonly [RegExp, string][] = [
	[/\.(c|h)$/, 'c'],
	[/\.(cc|cpp|cxx|c\+\+|hh|hpp|hxx|tcc|ipp|inl)$/i, 'cpp'],
	[/\.rs$/, 'rust'],
	[/\.py$/, 'python'],
	[/\.go$/, 'go'],
];

/** Larger files are shown plain: highlighting them would take too long. */
const MOST = 400000;

export function languageOf(path: string): string | undefined {
	const name = path.slice(path.lastIndexOf('/') + 1);
	/* Headers of the C++ standard library have no extension. */
	return LANGUAGES.find(([ending]) => ending.test(name))?.[1] ?? (name.includes('.') ? undefined : 'cpp');
}

function escape(text: string): string {
	return text.replace(/[&<>"]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign]!);
}

/** Closes elements that span a line break at its end, and reopens them on the next line. */
export function splitLines(html: string): string[] {
	const open: string[] = [];
	return html.split('\n').map((line) => {
		const before = open.join('');
		for (const tag of line.match(/<span [^>]*>|<\/span>/g) ?? []) {
			if (tag === '</span>') open.pop();
			else open.push(tag);
		}
		return before + line + '</span>'.repeat(open.length);
	});
}

export function highlightLines(path: string, known: readonly (string | null)[]): string[] {
	const lines = known.map((line) => line ?? '');
	const text = lines.join('\n');
	const language = languageOf(path);
	if (!language || text.length > MOST) return lines.map(escape);
	return splitLines(hljs.highlight(text, { language, ignoreIllegals: true }).value);
}

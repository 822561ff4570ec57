// SPDX-License-Identifier: Apache-2.0
// A call stack, innermost frame first; runtime frames are paler.
import { placeOf, shortName } from '../model/frames';
import { go } from '../model/state';
import type { Frame } from '../model/types';

export function Place({ frame }: { frame: Frame }) {
	if (!frame.file || !frame.line)
		return (
			<span class="where" title={frame.module}>
				{placeOf(frame)}
			</span>
		);
	return (
		<a
			class="where"
			href="#"
			title={`${frame.file}:${frame.line}`}
			onClick={(event) => {
				event.preventDefault();
				go('source', { path: frame.file, line: String(frame.line) });
			}}
		>
			{placeOf(frame)}
		</a>
	);
}

export function Stack({ stack, frames }: { stack: readonly number[]; frames: readonly Frame[] }) {
	return (
		<ol class="stack">
			{stack.map((number, i) => {
				const frame = frames[number];
				return (
					frame && (
						<li key={i} class={frame.runtime_frame ? 'runtime' : ''}>
							<span class={`fn ${frame.inlined ? 'inlined' : ''}`} title={frame.function}>
								{shortName(frame.function)}
							</span>
							<Place frame={frame} />
						</li>
					)
				);
			})}
		</ol>
	);
}

// SPDX-License-Identifier: Apache-2.0
// Whether the peak is known for the selected threads. A free is counted for the thread that makes it, so if threads passed blocks to
// others, their live bytes at the peak are unknown; the page then shows the end.
import { useLayoutEffect } from 'preact/hooks';
import { peakQuestion } from '../model/query';
import { useAnswer } from '../model/source';
import { peakUnknown } from '../model/state';
import type { Answered } from '../model/types';
import { useScope } from './scope';

/** Returns false until it is known what can be queried. */
export function useKnownPeak(): boolean {
	const scope = useScope();
	const answer = useAnswer<Answered>(scope.state ? peakQuestion(scope.state) : null);
	const why = answer.data?.end_for_peak ? (answer.data.note ?? '') : undefined;
	useLayoutEffect(() => {
		peakUnknown.value = why;
	}, [why]);
	return peakUnknown.value === why && (answer.of === null || answer.status !== 'loading' || answer.data !== undefined);
}

// SPDX-License-Identifier: Apache-2.0
// Which moments are known of the threads in question. A free is counted by the thread that makes it, so that of threads which
// passed blocks on nobody knows what they held at the peak; then the page asks for the end.
import { useLayoutEffect } from 'preact/hooks';
import { peakQuestion } from '../model/query';
import { useAnswer } from '../model/source';
import { peakUnknown } from '../model/state';
import type { Answered } from '../model/types';
import { useScope } from './scope';

/** False while it is not known yet what can be asked. */
export function useKnownPeak(): boolean {
	const scope = useScope();
	const answer = useAnswer<Answered>(scope.state ? peakQuestion(scope.state) : null);
	const why = answer.data?.end_for_peak ? (answer.data.note ?? '') : undefined;
	useLayoutEffect(() => {
		peakUnknown.value = why;
	}, [why]);
	return peakUnknown.value === why && (answer.of === null || answer.status !== 'loading' || answer.data !== undefined);
}

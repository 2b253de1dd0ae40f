	switch (t->back) {
	default: Uerror("bad return move");
	case  0: goto R999; /* nothing to undo */

		 /* CLAIM decided */
;
		;
		
	case 4: // STATE 6
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC Kernel */

	case 5: // STATE 1
		;
		XX = 1;
		unrecv(now.kick, XX-1, 0, ((int)((P4 *)_this)->n), 1);
		((P4 *)_this)->n = trpt->bup.oval;
		;
		;
		goto R999;

	case 6: // STATE 2
		;
		((P4 *)_this)->in = trpt->bup.oval;
		;
		goto R999;

	case 7: // STATE 3
		;
		((P4 *)_this)->seen = trpt->bup.oval;
		;
		goto R999;

	case 8: // STATE 4
		;
	/* 2 */	((P4 *)_this)->n = trpt->bup.ovals[2];
	/* 1 */	((P4 *)_this)->seen = trpt->bup.ovals[1];
	/* 0 */	((P4 *)_this)->in = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 9: // STATE 5
		;
		opened = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 11: // STATE 7
		;
		_m = unsend(now.told);
		;
		goto R999;

	case 12: // STATE 9
		;
		_m = unsend(now.told);
		;
		goto R999;

	case 13: // STATE 15
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC Gate */

	case 14: // STATE 1
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 16: // STATE 3
		;
		XX = 1;
		unrecv(now.proof, XX-1, 0, ((int)((P3 *)_this)->s), 1);
		((P3 *)_this)->s = trpt->bup.oval;
		;
		;
		goto R999;

	case 17: // STATE 5
		;
		((P3 *)_this)->evidence = trpt->bup.ovals[1];
	/* 0 */	((P3 *)_this)->evidence = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 18: // STATE 7
		;
		((P3 *)_this)->evidence = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 20: // STATE 11
		;
		XX = 1;
		unrecv(now.ring, XX-1, 0, ((int)((P3 *)_this)->s), 1);
		((P3 *)_this)->s = trpt->bup.oval;
		;
		;
		goto R999;

	case 21: // STATE 12
		;
		((P3 *)_this)->examined = trpt->bup.oval;
		;
		goto R999;

	case 22: // STATE 20
		;
		((P3 *)_this)->s = trpt->bup.ovals[2];
		((P3 *)_this)->share = trpt->bup.ovals[1];
	/* 0 */	((P3 *)_this)->share = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 23: // STATE 20
		;
		((P3 *)_this)->s = trpt->bup.ovals[2];
		((P3 *)_this)->differ = trpt->bup.ovals[1];
	/* 0 */	((P3 *)_this)->s = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 24: // STATE 20
		;
		((P3 *)_this)->s = trpt->bup.oval;
		;
		goto R999;

	case 25: // STATE 21
		;
	/* 0 */	((P3 *)_this)->differ = trpt->bup.oval;
		;
		;
		goto R999;

	case 26: // STATE 22
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 27: // STATE 23
		;
		now.refused = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 29: // STATE 29
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;
;
		;
		;
		;
		
	case 32: // STATE 35
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 33: // STATE 36
		;
	/* 1 */	((P3 *)_this)->share = trpt->bup.ovals[1];
	/* 0 */	((P3 *)_this)->evidence = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 34: // STATE 37
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 35: // STATE 38
		;
		now.refused = trpt->bup.oval;
		;
		goto R999;

	case 36: // STATE 40
		;
	/* 0 */	((P3 *)_this)->evidence = trpt->bup.oval;
		;
		;
		goto R999;

	case 37: // STATE 41
		;
		((P3 *)_this)->evidence = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 39: // STATE 45
		;
		((P3 *)_this)->tries = trpt->bup.oval;
		;
		goto R999;

	case 40: // STATE 46
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 41: // STATE 47
		;
		_m = unsend(now.kick);
		;
		goto R999;
;
		;
		
	case 43: // STATE 49
		;
		XX = 1;
		unrecv(now.told, XX-1, 0, ((int)((P3 *)_this)->ok), 1);
		((P3 *)_this)->ok = trpt->bup.oval;
		;
		;
		goto R999;

	case 44: // STATE 50
		;
	/* 0 */	((P3 *)_this)->ok = trpt->bup.oval;
		;
		;
		goto R999;

	case 45: // STATE 51
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 46: // STATE 54
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 47: // STATE 57
		;
	/* 0 */	((P3 *)_this)->tries = trpt->bup.oval;
		;
		;
		goto R999;

	case 48: // STATE 58
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 49: // STATE 59
		;
		now.refused = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 51: // STATE 62
		;
		now.gate = trpt->bup.oval;
		;
		goto R999;

	case 52: // STATE 63
		;
		now.refused = trpt->bup.oval;
		;
		goto R999;

	case 53: // STATE 68
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC Agent */
;
		;
		
	case 55: // STATE 2
		;
		_m = unsend(now.proof);
		;
		goto R999;

	case 56: // STATE 3
		;
		_m = unsend(now.proof);
		;
		goto R999;

	case 57: // STATE 4
		;
		_m = unsend(now.proof);
		;
		goto R999;

	case 58: // STATE 5
		;
		_m = unsend(now.proof);
		;
		goto R999;

	case 59: // STATE 9
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC Adversary */
;
		;
		
	case 61: // STATE 3
		;
		((P1 *)_this)->left = trpt->bup.oval;
		;
		goto R999;

	case 62: // STATE 4
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 63: // STATE 6
		;
		((P1 *)_this)->left = trpt->bup.oval;
		;
		goto R999;

	case 64: // STATE 7
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 65: // STATE 9
		;
		((P1 *)_this)->left = trpt->bup.oval;
		;
		goto R999;

	case 66: // STATE 10
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 67: // STATE 12
		;
		((P1 *)_this)->left = trpt->bup.oval;
		;
		goto R999;

	case 68: // STATE 13
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 69: // STATE 18
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC Segment */

	case 70: // STATE 1
		;
		now.count = trpt->bup.oval;
		;
		goto R999;

	case 71: // STATE 2
		;
		_m = unsend(now.ring);
		;
		goto R999;

	case 72: // STATE 4
		;
	/* 0 */	((P0 *)_this)->decoy = trpt->bup.oval;
		;
		;
		goto R999;

	case 73: // STATE 5
		;
	/* 0 */	((P0 *)_this)->decoy = trpt->bup.oval;
		;
		;
		goto R999;

	case 74: // STATE 6
		;
		now.taken = trpt->bup.oval;
		;
		goto R999;

	case 75: // STATE 7
		;
	/* 0 */	((P0 *)_this)->decoy = trpt->bup.oval;
		;
		;
		goto R999;

	case 76: // STATE 10
		;
		p_restor(II);
		;
		;
		goto R999;
	}


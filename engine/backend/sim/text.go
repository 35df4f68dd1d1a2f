package sim

// passage is what the device says, over and over: the token at position p of a
// sequence is the character at p mod len(passage). So an answer begins wherever
// its prompt ends. At the passage's first character the text ends instead: a
// prompt of n tokens gets (−n mod len(passage)) characters and the end token,
// unless max_tokens comes first. Where the end token is banned, the passage
// begins again.
const passage = "This text comes from a simulated device. It has no weights, and it knows nothing of " +
	"your question. It takes as long as it was told to take, one token after another, so that you can " +
	"see what a server does under load: how long a request waits, how soon it begins to speak, and how " +
	"evenly it goes on. The words are always the same, and so are their mistakes when the temperature " +
	"is high. "

// The logits: at temperature 1 the passage's own character is drawn about nine
// times out of ten, and its rivals, three unless two are the same character, have
// the rest. Other tokens come up at a temperature above 2 only.
const (
	likely    = 10
	rival     = 6.5
	unlikely  = -30
	numRivals = 3
)

// writeLogits writes the row that follows a token at a position. The rivals of
// the passage's character are characters of the passage too, picked by a hash
// of token and position.
func writeLogits(row []float32, token, position, eos int32) {
	for i := range row {
		row[i] = unlikely
	}
	hash := mix(uint64(token)<<32 | uint64(position))
	for range numRivals {
		row[passage[hash%uint64(len(passage))]] = rival
		hash = mix(hash + gamma)
	}
	at := (int(position) + 1) % len(passage)
	if at == 0 {
		row[passage[0]] = (likely + rival) / 2
		row[eos] = likely
		return
	}
	row[passage[at]] = likely
}

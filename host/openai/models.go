package openai

// Model is a served model.
type Model struct {
	ID          string // the name that requests give
	Created     int64  // Unix seconds
	OwnedBy     string
	Root        string // the file or model behind the name
	MaxModelLen int    // context length in tokens
}

// AppendModel appends the body of /v1/models/{id}.
func AppendModel(dst []byte, m *Model) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, m.ID)
	dst = append(dst, `,"object":"model","created":`...)
	dst = appendInt(dst, int(m.Created))
	dst = append(dst, `,"owned_by":`...)
	dst = appendString(dst, m.OwnedBy)
	dst = append(dst, `,"root":`...)
	dst = appendString(dst, m.Root)
	dst = append(dst, `,"parent":null,"max_model_len":`...)
	dst = appendInt(dst, m.MaxModelLen)
	return append(dst, '}')
}

// AppendModels appends the body of /v1/models.
func AppendModels(dst []byte, models []Model) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, &models[i])
	}
	return append(dst, "]}"...)
}
